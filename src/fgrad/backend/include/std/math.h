// NVRTC has no <math.h>: fgrad/standard.cuh says what std is.
