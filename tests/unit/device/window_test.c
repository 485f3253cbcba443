/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows over an axis, all small shapes: what sees an input is what falls on it.
 */
#include "test.h"

#include "device/common/conv_window.h"

enum { MOST = 7 };

/* Along the first axis; the second has another shape, which must not matter. */
static struct pst_window window_of(uint32_t in, uint32_t kernel, uint32_t stride, uint32_t pad)
{
    struct pst_window w = {
        .in = {in, 1}, .kernel = {kernel, 1}, .stride = {stride, 1}, .dilation = {1, 1}};

    w.pad[0] = pad;
    w.out[0] = (in + 2 * pad - kernel) / stride + 1;
    w.out[1] = 1;
    return w;
}

/* By definition: element k of window o lies on input o stride + k - pad. */
static void check(const struct pst_window *w)
{
    bool seen[MOST][3 * MOST] = {{false}};

    for (uint64_t o = 0; o < w->out[0]; o++) {
        uint64_t inside = 0;

        for (uint64_t k = 0; k < w->kernel[0]; k++) {
            const int64_t expected = (int64_t)(o * w->stride[0] + k) - (int64_t)w->pad[0];
            uint64_t found = 0;
            const bool is_in = pst_window_at(w, 0, o, k, &found);

            assert_int_equal(is_in, expected >= 0 && expected < (int64_t)w->in[0]);
            if (is_in) {
                assert_int_equal(found, expected);
                seen[found][o] = true;
                inside++;
            }
        }
        assert_int_equal(pst_window_inside(w, 0, o), inside);
    }
    for (uint64_t i = 0; i < w->in[0]; i++) {
        const uint64_t first = pst_window_first(w, 0, i), end = pst_window_end(w, 0, i);

        for (uint64_t o = 0; o < w->out[0]; o++) {
            assert_int_equal(o >= first && o < end, seen[i][o]);
        }
    }
}

TEST(test_all_small)
{
    uint32_t n = 0;

    for (uint32_t in = 1; in <= MOST; in++) {
        for (uint32_t kernel = 1; kernel <= MOST; kernel++) {
            for (uint32_t stride = 1; stride <= 4; stride++) {
                for (uint32_t pad = 0; pad < kernel; pad++) {
                    const struct pst_window w = window_of(in, kernel, stride, pad);

                    if (in + 2 * pad >= kernel) {
                        check(&w);
                        n++;
                    }
                }
            }
        }
    }
    assert_true(n > 500);
}
