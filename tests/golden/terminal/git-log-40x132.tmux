7 0 0
* [33mf803c9c ([1m[36mHEAD -> [32mmain[0m[33m[49m)[39m four
*   [33mc9099a8[39m Merge branch 'side'
[32m|[33m\[39m  
[32m|[39m * [33m3894f7e ([1m[32mside[0m[33m[49m)[39m two: é
* [33m|[39m [33mcad9d10[39m three
[33m|/[39m  
* [33m7615112[39m one

































