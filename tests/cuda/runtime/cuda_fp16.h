// SPDX-License-Identifier: Apache-2.0
// A stand-in for CUDA's half precision.
#pragma once

typedef _Float16 __half;

inline __half __float2half(float value)
{
    return static_cast<__half>(value);
}
inline float __half2float(__half value)
{
    return static_cast<float>(value);
}
