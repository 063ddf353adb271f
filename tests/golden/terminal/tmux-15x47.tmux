13 35 1
bash-5.2# echo hi      │25               
hi                     │26
bash-5.2#              │27
                       │28
                       │29
                       │30
                       │root@vm:~# 
                       [32m├───────────────────────
[39m                       [32m│[39minner        
                       [32m│[39mlink   
                       [32m│[39mlist
                       [32m│[39mmanual.txt
                       [32m│[39mrun.sh
                       [32m│[39mroot@vm:~# 
[30m[42m[0] 0:bash*                                tmux
