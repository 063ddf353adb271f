23 1 1
       text 24 [4mfile[0m[39m[49m and more of it
       text 25 [4mfile[0m[39m[49m and more of it
       text 26 [4mfile[0m[39m[49m and more of it
       text 27 [4mfile[0m[39m[49m and more of it
       text 28 [4mfile[0m[39m[49m and more of it
       text 29 [4mfile[0m[39m[49m and more of it
       text 30 [4mfile[0m[39m[49m and more of it
       text 31 [4mfile[0m[39m[49m and more of it
       text 32 [4mfile[0m[39m[49m and more of it
       text 33 [4mfile[0m[39m[49m and more of it
       text 34 [4mfile[0m[39m[49m and more of it
       text 35 [4mfile[0m[39m[49m and more of it
       text 36 [4mfile[0m[39m[49m and more of it
       text 37 [4mfile[0m[39m[49m and more of it
       text 38 [4mfile[0m[39m[49m and more of it
       text 39 [4mfile[0m[39m[49m and more of it
       text 40 [4mfile[0m[39m[49m and more of it
       text 41 [4mfile[0m[39m[49m and more of it
       text 42 [4mfile[0m[39m[49m and more of it
       text 43 [4mfile[0m[39m[49m and more of it
       text 44 [4mfile[0m[39m[49m and more of it
       text 45 [4mfile[0m[39m[49m and more of it
       text 46 [4mfile[0m[39m[49m and more of it
:
