15 52 1
bash-5.2# echo hi                       │21               
hi                                      │22
bash-5.2#                               │23
                                        │24
                                        │25
                                        │26
                                        │27
                                        │28
                                        │29
                                        │30
                                        │root@vm:~# 
                                        [32m├───────────────────────────────────────
[39m                                        [32m│[39mroot@vm:~# ls
                                        [32m│[39mcode.py       dir    link  manual.txt
                                        [32m│[39mcoloured.txt  inner  list  run.sh
                                        [32m│[39mroot@vm:~# 
                                        [32m│[39m  
                                        [32m│[39m  
                                        [32m│[39m  
                                        [32m│[39m  
                                        [32m│[39m  
                                        [32m│[39m  
                                        [32m│[39m           
[30m[42m[0] 0:bash*                                                                 tmux
