"""What tests of several layers share; imported as `tests.support`."""
