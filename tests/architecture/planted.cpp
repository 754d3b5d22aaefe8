// The whole content of a library of which only the link line matters.
int planted_symbol() { return 1; }
