39 1 0
Date:   Tue Nov 14 22:13:20 2023 +0000

    four

[1mdiff --git a/code.py b/code.py
index 8b16c82..a821115 100644
--- a/code.py
+++ b/code.py
[0m[36m[49m@@ -3,45 +3,45 @@[39m import sys
 
 def main(arg: str) -> int:
     '''Say "hello" to é and 漢字.'''
[31m-    print(0, 'a string', arg)  # number 0
-    print(1, 'a string', arg)  # number 1
-    print(2, 'a string', arg)  # number 2
-    print(3, 'a string', arg)  # number 3
-    print(4, 'a string', arg)  # number 4
-    print(5, 'a string', arg)  # number 5
-    print(6, 'a string', arg)  # number 6
-    print(7, 'a string', arg)  # number 7
-    print(8, 'a string', arg)  # number 8
-    print(9, 'a string', arg)  # number 9
-    print(10, 'a string', arg)  # number 10
-    print(11, 'a string', arg)  # number 11
-    print(12, 'a string', arg)  # number 12
-    print(13, 'a string', arg)  # number 13
-    print(14, 'a string', arg)  # number 14
-    print(15, 'a string', arg)  # number 15
-    print(16, 'a string', arg)  # number 16
-    print(17, 'a string', arg)  # number 17
-    print(18, 'a string', arg)  # number 18
-    print(19, 'a string', arg)  # number 19
-    print(20, 'a string', arg)  # number 20
-    print(21, 'a string', arg)  # number 21
-    print(22, 'a string', arg)  # number 22
-    print(23, 'a string', arg)  # number 23
-    print(24, 'a string', arg)  # number 24
-    print(25, 'a string', arg)  # number 25
-    print(26, 'a string', arg)  # number 26
[39m:
