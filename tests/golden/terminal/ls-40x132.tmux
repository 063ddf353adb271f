11 0 0
total 44
drwx------  6 root root 4096  [1m[34m.
[0m[39m[49mdrwxrwxrwt 22 root root 4096  [30m[42m..
[39m[49mdrwxr-xr-x  8 root root 4096  [1m[34m.git
[0m[39m[49m-rw-r--r--  1 root root 1835  code.py
-rw-r--r--  1 root root 6785  coloured.txt
drwxr-xr-x  2 root root 4096  [1m[34mdir
[0m[39m[49mdrwxr-xr-x  2 root root 4096  [1m[34mlink
[0m[39m[49mdrwxr-xr-x  2 root root 4096  [1m[34mlist
[0m[39m[49m-rw-r--r--  1 root root 2583  manual.txt
-rwxr-xr-x  1 root root    2  [1m[32mrun.sh





























