6 18 0
[1m[32muser@host[0m[39m[49m:[34m~[39m# for n in 1 2 3; do echo $n; done
1
2
3
[1m[32muser@host[0m[39m[49m:[34m~[39m# ls li
link/ list/ 
[1m[32muser@host[0m[39m[49m:[34m~[39m# ls li

































