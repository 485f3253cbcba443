/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <fenv.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "base/float_mode.h"

/* After a change the mode differs; after the reset it is that of the process's start. */
static void expect_reset(uint64_t begun)
{
    assert_true(pst_float_mode() != begun);
    assert_true(pst_float_mode_reset());
    assert_true(pst_float_mode() == begun);
    assert_false(pst_float_mode_reset());
}

TEST(each_control_bit_is_set_back)
{
    const uint64_t begun = pst_float_mode();

    assert_false(pst_float_mode_reset());
    fesetround(FE_UPWARD);
    expect_reset(begun);
    assert_int_equal(fegetround(), FE_TONEAREST);
#if defined(__x86_64__)
    /* Intel SDM, volume 1: 10.2.3, flush to zero and denormals are zero; 8.1.5, precision of 24. */
    volatile float tiny = 0x1p-126f;
    const uint16_t single = 0x007F;

    _mm_setcsr(_mm_getcsr() | 0x8000u);
    expect_reset(begun);
    _mm_setcsr(_mm_getcsr() | 0x0040u);
    expect_reset(begun);
    assert_true(tiny * 0.5f == 0x1p-127f);
    _mm_setcsr(_mm_getcsr() & ~0x1000u); /* a trap of inexact results */
    expect_reset(begun);
    __asm__ volatile("fldcw %0" : : "m"(single));
    expect_reset(begun);
#endif
}

/* What was computed raises flags, which are no mode. */
TEST(exceptions_that_were_raised_are_no_change)
{
    volatile double third = 3;

    third = 1 / third;
    assert_true(fetestexcept(FE_INEXACT) != 0);
    assert_false(pst_float_mode_reset());
}
