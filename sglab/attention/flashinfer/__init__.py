"""flashinfer: wrappers over CSR indices of page size 1, for MHA and for absorbed MLA."""
