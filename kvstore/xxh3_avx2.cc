// Compiled with -mavx2; see xxh3.h before adding an include.
#define HF_XXH3_TABLE kXxh3Avx2
#include "kvstore/xxh3_impl.h"
