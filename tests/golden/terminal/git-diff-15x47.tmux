14 1 0
Author: A <a@b>
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
[39m:
