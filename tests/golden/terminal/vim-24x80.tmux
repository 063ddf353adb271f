4 8 1
[38;5;130m      2 [39m                                [7m|[0m[38;5;130m[49m      1 [39m  
[38;5;130m      3 [47mdef[39m [36mmain[39m(arg: [36mstr[39m) -> [36mint[39m: [49m     [7m|[0m[38;5;130m[49m      2 [39m  
[38;5;130m      4 [39m[47m    [31m'''Say "hello" to é and 漢字[7m[39m[49m|[0m[38;5;130m[49m      3 [47mdef[39m [36mmain[39m(arg: [36mstr[39m) -> [36mint[39m: 
[31m.'''[39m [49m                                   [7m|[0m[38;5;130m[49m      4 [39m[47m    [31m'''Say "hello" to é and 漢[94m[49m>
[38;5;130m      5 [39m    [36mprint[39m([31m0[39m, [31m'a STRING'[39m, arg)  [34m#[7m[39m|[0m[31m[47m字.'''[39m [49m   
[34m number 0[39m                               [7m|[0m[38;5;130m[49m      5 [39m[47m [49m   [36mprint[39m([31m0[39m, [31m'a STRING'[39m, arg)
[38;5;130m      6 [39m    [36mprint[39m([31m1[39m, [31m'a STRING'[39m, arg)  [34m#[7m[39m|[0m[34m[49m# number 0
 number 1[39m                               [7m|[0m[38;5;130m[49m      6 [39m    [36mprint[39m([31m1[39m, [31m'a STRING'[39m, arg)
[38;5;130m      7 [39m    [36mprint[39m([31m2[39m, [31m'a STRING'[39m, arg)  [34m#[7m[39m|[0m[34m[49m# number 1
 number 2[39m                               [7m|[0m[38;5;130m[49m      7 [39m    [36mprint[39m([31m2[39m, [31m'a STRING'[39m, arg)
[38;5;130m      8 [39m    [36mprint[39m([31m3[39m, [31m'a STRING'[39m, arg)  [34m#[7m[39m|[0m[34m[49m# number 2
 number 3[39m                               [7m|[0m[38;5;130m[49m      8 [39m    [36mprint[39m([31m3[39m, [31m'a STRING'[39m, arg)
[38;5;130m      9 [39m    [36mprint[39m([31m4[39m, [31m'a STRING'[39m, arg)  [34m#[7m[39m|[0m[34m[49m# number 3
 number 4[39m                               [7m|[0m[38;5;130m[49m      9 [39m    [36mprint[39m([31m4[39m, [31m'a STRING'[39m, arg)
[38;5;130m     10 [39m    [36mprint[39m([31m5[39m, [31m'a STRING'[39m, arg)  [34m#[7m[39m|[0m[34m[49m# number 4
 number 5[39m                               [7m|[0m[38;5;130m[49m     10 [39m    [36mprint[39m([31m5[39m, [31m'a STRING'[39m, arg)
[38;5;130m     11 [39m    [36mprint[39m([31m6[39m, [31m'a STRING'[39m, arg)  [34m#[7m[39m|[0m[34m[49m# number 5
 number 6[39m                               [7m|[0m[38;5;130m[49m     11 [39m    [36mprint[39m([31m6[39m, [31m'a STRING'[39m, arg)
[38;5;130m     12 [39m    [36mprint[39m([31m7[39m, [31m'a STRING'[39m, arg)  [34m#[7m[39m|[0m[34m[49m# number 6
 number 7[39m                               [7m|[0m[38;5;130m[49m     12 [39m    [36mprint[39m([31m7[39m, [31m'a STRING'[39m, arg)
[38;5;130m     13 [39m    [36mprint[39m([31m8[39m, [31m'a STRING'[39m, arg)  [34m#[7m[39m|[0m[34m[49m# number 7
 number 8[39m                               [7m|[0m[94m[49m@                                      
[1;7m[39mcode.py [+]                              [0;7m[39m[49mcode.py [+]                            
[0m[39m[49m:set hlsearch
