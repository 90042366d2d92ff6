// SPDX-License-Identifier: Apache-2.0
// What src/cuda/driver.h declares is what CUDA's own header declares: constants, and the sizes of parameters.
#include <array>
#include <cuda.h>
#include <hooksess/status.h>

namespace own {
#include "cuda/driver.h"
#define HS__CUDA_DECLARATION(name, symbol, parameters) CUresult symbol parameters;
HS__CUDA_FUNCTIONS(HS__CUDA_DECLARATION)
} // namespace own

template <class R, class... A> constexpr auto sizes(R (*)(A...)) { return std::array{sizeof(R), sizeof(A)...}; }

#define SAME(name, symbol, parameters) static_assert(sizes(&::symbol) == sizes(&own::symbol), #symbol);
HS__CUDA_FUNCTIONS(SAME)
#define SAME_CONSTANT(name) static_assert((int)::name == (int)own::name, #name)
#include "constants.inc" // made by cuda.sh
