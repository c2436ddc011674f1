// NVRTC has no such header; fgrad/standard.cuh says what std is.
