// The whole content of a library whose link line is all that matters.
int planted_symbol() { return 1; }
