"""How kernels are compiled, kept between processes, and interrupted."""
