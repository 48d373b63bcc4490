// Functions that Debian's C library lacks on a processor: none here, for nothing is linked.
