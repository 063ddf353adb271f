39 0 0
top - 20:54:49 up 53 min,  0 user,  load average: 4.64, 6.24, 5.04
[31mTasks:[1m[39m   1 [0m[31m[49mtotal,[1m[39m   1 [0m[31m[49mrunning,[1m[39m   0 [0m[31m[49msleeping,[1m[39m   0 [0m[31m[49mstopped,[1m[39m   0 [0m[31m[49mzombie
%Cpu0  :[1m[39m  0.0 [0m[31m[49mus,[1m[39m  0.0 [0m[31m[49msy,[1m[39m  0.0 [0m[31m[49mni,[1m[39m100.0 [0m[31m[49mid,[1m[39m  0.0 [0m[31m[49mwa,[1m[39m  0.0 [0m[31m[49mhi,[1m[39m  0.0 [0m[31m[49msi,[1m[39m  0.0 [0m[31m[49mst[39m 
[31m%Cpu1  :[1m[39m  0.0 [0m[31m[49mus,[1m[39m  0.0 [0m[31m[49msy,[1m[39m  0.0 [0m[31m[49mni,[1m[39m100.0 [0m[31m[49mid,[1m[39m  0.0 [0m[31m[49mwa,[1m[39m  0.0 [0m[31m[49mhi,[1m[39m  0.0 [0m[31m[49msi,[1m[39m  0.0 [0m[31m[49mst[39m 
[31mMiB Mem :[1m[39m  24105.6 [0m[31m[49mtotal,[1m[39m  21492.5 [0m[31m[49mfree,[1m[39m   1860.4 [0m[31m[49mused,[1m[39m   1290.3 [0m[31m[49mbuff/cache[39m     
[31mMiB Swap:[1m[39m      0.0 [0m[31m[49mtotal,[1m[39m      0.0 [0m[31m[49mfree,[1m[39m      0.0 [0m[31m[49mused.[1m[39m  22245.1 [0m[31m[49mavail Mem 

[7m[33m  PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND                                                        
[0;1m[31m[49m11463 root      20   0    9096   5276   3136 R   0.0   0.0   0:00.00 top                                                            































