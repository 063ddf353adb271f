10 18 1

      [1m[33mcolour 3
[0m[39m[49m        [34mcolour 4
[39m          [1m[35mcolour 5
[0m[39m[49m            [36mcolour 6


[39m              [1m[37mcolour 7
[0m[39m[49m          lqqqqqqqqqqqqqqqqqqk
qqqqqqqq  x[7mbox[0m[39m[49m               x
          x 漢字 é           x
          x                  x
          x                  x
          mqqqqqqqqqqqqqqqqqqj


























