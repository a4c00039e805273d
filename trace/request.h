// One request of a trace: when it came, how long it was, and which blocks its prompt is made of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace holdfast {

struct Request {
  int64_t timestamp_ms = 0;    // from the start of the trace
  uint64_t input_length = 0;   // tokens, a dropped partial block included
  uint64_t output_length = 0;  // tokens
  // Prefix identities, root first: an equal id is the same block after the same prefix, over the
  // whole trace. Below 2^63.
  std::vector<uint64_t> hash_ids;
  std::string session;  // empty when the trace does not say
};

}  // namespace holdfast
