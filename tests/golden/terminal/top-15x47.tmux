14 0 0
top - 16:36:40 up 34 min,  0 user,  load averag
[31mTasks:[1m[39m   1 [0m[31m[49mtotal,[1m[39m   1 [0m[31m[49mrunning,[1m[39m   0 [0m[31m[49msleeping,[1m[39m   
[0m[31m[49m%Cpu0  :[1m[39m  0.0 [0m[31m[49mus,[1m[39m  0.0 [0m[31m[49msy,[1m[39m  0.0 [0m[31m[49mni,[1m[39m100.0 [0m[31m[49mid,[1m[39m  0
[0m[31m[49m%Cpu1  :[1m[39m  0.0 [0m[31m[49mus,[1m[39m  0.0 [0m[31m[49msy,[1m[39m  0.0 [0m[31m[49mni,[1m[39m100.0 [0m[31m[49mid,[1m[39m  0
[0m[31m[49mMiB Mem :[1m[39m  24105.1 [0m[31m[49mtotal,[1m[39m  23188.4 [0m[31m[49mfree,[1m[39m    849
[0m[31m[49mMiB Swap:[1m[39m      0.0 [0m[31m[49mtotal,[1m[39m      0.0 [0m[31m[49mfree,[1m[39m      0

[0;7m[33m[49m  PID USER      PR  NI    VIRT    RES    SHR S 
[0;1m[31m[49m11220 root      20   0    9060   5200   3116 R 






