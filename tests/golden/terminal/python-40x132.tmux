14 4 0
>>> 1 + 1
2
>>> for n in range(3):
    print('x' * n)

... ... 
x
xx
>>> 1 / 0
Traceback (most recent call last):
  File "<stdin>", line 1, in <module>
ZeroDivisionError: division by zero
>>> print('e\u0301')
é
>>> 

























