/* SPDX-License-Identifier: Apache-2.0
 *
 * bfloat16: the upper half of an f32, rounded to nearest, ties to even. Shared by host and CUDA
 * code.
 */
#ifndef PST_BASE_BF16_H
#define PST_BASE_BF16_H

#include <stdint.h>
#include <string.h>

#include "base/philox.h"

PST_HD float pst_bf16_load(uint16_t value)
{
    uint32_t bits = (uint32_t)value << 16;
    float result;

    memcpy(&result, &bits, sizeof result);
    return result;
}

PST_HD uint16_t pst_bf16_round(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) {
        return (uint16_t)((bits >> 16) | 0x40u); /* a NaN stays one */
    }
    return (uint16_t)((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

#endif
