"""What was measured and the pages made of it: one store of results and one page builder for benchmarks and studies."""
