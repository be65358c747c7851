"""Makes Cycles of traces that other tools wrote: the torch profiler's, Nsight Systems'."""
