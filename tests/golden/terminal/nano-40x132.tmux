4 3 1
[7m  GNU nano 7.2                                                  code.py                                                   Modified  
35[0m[39m[49m     print(29, 'a STRING', arg)  # number 29
[7m36[0m[39m[49m     print(30, 'a STRING', arg)  # number 30                           
[7m37[0m[39m[49m     print(31, 'a STRING', arg)  # number 31                           
[7m38[0m[39m[49m #    print(32, 'a STRING', arg)  # number 32                    
[7m39[0m[39m[49m     print(33, 'a STRING', arg)  # number 33                           
[7m40[0m[39m[49m     print(34, 'a STRING', arg)  # number 34                       
[7m41[0m[39m[49m     print(35, 'a STRING', arg)  # number 35                           
[7m42[0m[39m[49m     print(36, 'a STRING', arg)  # number 36             
[7m43[0m[39m[49m     print(37, 'a STRING', arg)  # number 37
[7m44[0m[39m[49m     print(38, 'a STRING', arg)  # number 38                           
[7m45[0m[39m[49m     print(39, 'a STRING', arg)  # number 39                            
[7m46[0m[39m[49m     return 0                                                         
[7m47[0m[39m[49m x                                                                     
[7m48[0m[39m[49m                                                                    























[7m^G[0m[39m[49m Help         [7m^O[0m[39m[49m Write Out    [7m^W[0m[39m[49m Where Is     [7m^K[0m[39m[49m Cut          [7m^T[0m[39m[49m Execute      [7m^C[0m[39m[49m Location     [7mM-U[0m[39m[49m Undo        [7mM-A[0m[39m[49m Set Mark
[7m^X[0m[39m[49m Exit         [7m^R[0m[39m[49m Read File    [7m^\[0m[39m[49m Replace      [7m^U[0m[39m[49m Paste        [7m^J[0m[39m[49m Justify      [7m^/[0m[39m[49m Go To Line   [7mM-E[0m[39m[49m Redo        [7mM-6[0m[39m[49m Copy   
