14 1 1
       text 15 [4mfile[0m[39m[49m and more of it
       text 16 [4mfile[0m[39m[49m and more of it
       text 17 [4mfile[0m[39m[49m and more of it
       text 18 [4mfile[0m[39m[49m and more of it
       text 19 [4mfile[0m[39m[49m and more of it
       text 20 [4mfile[0m[39m[49m and more of it
       text 21 [4mfile[0m[39m[49m and more of it
       text 22 [4mfile[0m[39m[49m and more of it
       text 23 [4mfile[0m[39m[49m and more of it
       text 24 [4mfile[0m[39m[49m and more of it
       text 25 [4mfile[0m[39m[49m and more of it
       text 26 [4mfile[0m[39m[49m and more of it
       text 27 [4mfile[0m[39m[49m and more of it
       text 28 [4mfile[0m[39m[49m and more of it
:
