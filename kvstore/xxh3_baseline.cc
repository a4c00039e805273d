#define HF_XXH3_TABLE kXxh3Baseline
#include "kvstore/xxh3_impl.h"
