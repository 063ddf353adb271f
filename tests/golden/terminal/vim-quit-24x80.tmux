2 0 0
before
after






















