4 3 1
[7m  GNU nano 7.2        code.py        Modified  
10[0m[39m[49m     print(4, 'a STRING', arg)  # number 4
[7m11[0m[39m[49m     print(5, 'a STRING', arg)  # number 5
[7m12[0m[39m[49m     print(6, 'a STRING', arg)  # number 6 
[7m13[0m[39m[49m #    print(7, 'a STRING', arg)  # number 7 
[7m14[0m[39m[49m     print(8, 'a STRING', arg)  # number 8
[7m15[0m[39m[49m     print(9, 'a STRING', arg)  # number 9
[7m16[0m[39m[49m     print(10, 'a STRING', arg)  # number 10 
[7m17[0m[39m[49m     print(11, 'a STRING', arg)  # number 11
[7m18[0m[39m[49m     print(12, 'a STRING', arg)  # number 12
[7m19[0m[39m[49m     print(13, 'a STRING', arg)  # number 13 
[7m20[0m[39m[49m     print(14, 'a STRING', arg)  # number 14

[7m^G[0m[39m[49m Help    [7m^O[0m[39m[49m Write Ou[7m^W[0m[39m[49m Where Is[7m^K[0m[39m[49m Cut      
[7m^X[0m[39m[49m Exit    [7m^R[0m[39m[49m Read Fil[7m^\[0m[39m[49m Replace [7m^U[0m[39m[49m Paste    
