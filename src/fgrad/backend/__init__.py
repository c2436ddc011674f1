"""Where arrays live: one small interface to the devices and to the library that computes on each."""
