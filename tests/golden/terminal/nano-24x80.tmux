4 3 1
[7m  GNU nano 7.2                        code.py                         Modified  
19[0m[39m[49m     print(13, 'a STRING', arg)  # number 13
[7m20[0m[39m[49m     print(14, 'a STRING', arg)  # number 14                           
[7m21[0m[39m[49m     print(15, 'a STRING', arg)  # number 15                           
[7m22[0m[39m[49m #    print(16, 'a STRING', arg)  # number 16                    
[7m23[0m[39m[49m     print(17, 'a STRING', arg)  # number 17                           
[7m24[0m[39m[49m     print(18, 'a STRING', arg)  # number 18                       
[7m25[0m[39m[49m     print(19, 'a STRING', arg)  # number 19                           
[7m26[0m[39m[49m     print(20, 'a STRING', arg)  # number 20             
[7m27[0m[39m[49m     print(21, 'a STRING', arg)  # number 21
[7m28[0m[39m[49m     print(22, 'a STRING', arg)  # number 22                           
[7m29[0m[39m[49m     print(23, 'a STRING', arg)  # number 23                            
[7m30[0m[39m[49m     print(24, 'a STRING', arg)  # number 24                          
[7m31[0m[39m[49m     print(25, 'a STRING', arg)  # number 25                           
[7m32[0m[39m[49m     print(26, 'a STRING', arg)  # number 26                        
[7m33[0m[39m[49m     print(27, 'a STRING', arg)  # number 27                         
[7m34[0m[39m[49m     print(28, 'a STRING', arg)  # number 28                    
[7m35[0m[39m[49m     print(29, 'a STRING', arg)  # number 29
[7m36[0m[39m[49m     print(30, 'a STRING', arg)  # number 30
[7m37[0m[39m[49m     print(31, 'a STRING', arg)  # number 31
[7m38[0m[39m[49m     print(32, 'a STRING', arg)  # number 32            

[7m^G[0m[39m[49m Help      [7m^O[0m[39m[49m Write Out [7m^W[0m[39m[49m Where Is  [7m^K[0m[39m[49m Cut       [7m^T[0m[39m[49m Execute   [7m^C[0m[39m[49m Location   
[7m^X[0m[39m[49m Exit      [7m^R[0m[39m[49m Read File [7m^\[0m[39m[49m Replace   [7m^U[0m[39m[49m Paste     [7m^J[0m[39m[49m Justify   [7m^/[0m[39m[49m Go To Line
