/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversions that need no other part, on the cpu device: bytes of every type come where they
 * belong, with one thread and with several. What parts meet for is refused.
 */
#include "cpu_rig.h"

#include "graph/split.h"

TEST_GROUP(rig_load, NULL)

enum { PARTS = 3, SAMPLES = 4, OWN = 6 }; /* elements of a part of a sample */

static const uint32_t dtypes[] = {PST_F32, PST_BF16, PST_F64, PST_I32};

struct conversion {
    struct pst_tensor tensors[2];
    uint32_t in, out;
    struct pst_op op;
    struct pst_graph graph;
};

static void make(struct conversion *c, enum pst_convert convert, uint32_t dtype)
{
    const bool same =
        convert == PST_CONVERT_FAN || convert == PST_CONVERT_SUM || convert == PST_CONVERT_EXCHANGE;

    memset(c, 0, sizeof *c);
    c->out = 1;
    for (uint32_t i = 0; i < 2; i++) {
        const bool part = !same && i == 0;
        const uint64_t elems = part ? OWN : PARTS * OWN;

        c->tensors[i] = (struct pst_tensor){.name = "t",
                                            .dtype = dtype,
                                            .batched = true,
                                            .rank = 2,
                                            .dims = {elems / 2, 2},
                                            .elems = elems,
                                            .bytes = elems * pst_dtype_bytes(dtype)};
    }
    c->op = (struct pst_op){.kind = PST_OP_CONVERT,
                            .name = "conversion",
                            .convert = convert,
                            .parts = PARTS,
                            .n_in = 1,
                            .n_out = 1,
                            .in = &c->in,
                            .out = &c->out};
    c->graph = (struct pst_graph){.n_ops = 1,
                                  .n_tensors = 2,
                                  .ops = &c->op,
                                  .tensors = c->tensors,
                                  .slices = 1,
                                  .parts = PARTS};
}

/* Byte b of the operand is b: of a part's result byte i of a sample is known. */
static void check(struct pst_device *device, enum pst_convert convert, uint32_t pass,
                  uint32_t dtype, uint32_t part)
{
    const uint32_t own = OWN * pst_dtype_bytes(dtype), whole = PARTS * own;
    unsigned char operand[SAMPLES * PARTS * OWN * 8], result[sizeof operand + 1];
    void *x = operand, *y = result, *none = NULL;
    struct pst_call call = {.x = &x, .y = &y, .add = &none, .dy = operand, .dx = &y, .part = part};
    const bool cuts = convert != PST_CONVERT_FAN;
    const uint32_t n = cuts ? own : whole;
    struct pst_kernel *kernel = NULL;
    struct pst_error err = {0};
    struct conversion c;

    make(&c, convert, dtype);
    for (uint32_t b = 0; b < sizeof operand; b++) {
        operand[b] = (unsigned char)(b % 251);
    }
    memset(result, 0x5A, sizeof result);
    assert_ok(rig_ops->compile(device, &c.graph, 0, pass, SAMPLES, &kernel, &err), &err);
    assert_int_equal(kernel->workspace_bytes,
                     rig_ops->workspace(device, &c.graph, 0, pass, SAMPLES));
    kernel->run(kernel, &call);
    kernel->destroy(kernel);
    for (uint32_t s = 0; s < SAMPLES; s++) {
        for (uint32_t i = 0; i < n; i++) {
            assert_int_equal(result[s * n + i], (s * whole + (cuts ? part * own : 0) + i) % 251);
        }
    }
    assert_int_equal(result[SAMPLES * n], 0x5A);
}

TEST(of_one_part)
{
    for (uint32_t threads = 1; threads <= 2; threads++) {
        struct pst_device *device = rig_open("auto", threads);

        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
            for (uint32_t part = 0; part < PARTS; part++) {
                check(device, PST_CONVERT_FAN, PST_KERNEL_F, dtypes[d], part);
                check(device, PST_CONVERT_JOIN, PST_KERNEL_B, dtypes[d], part);
            }
        }
        rig_ops->close(device);
    }
}

TEST(others_are_refused)
{
    static const struct {
        enum pst_convert convert;
        uint32_t pass;
    } others[] = {{PST_CONVERT_FAN, PST_KERNEL_B},      {PST_CONVERT_SUM, PST_KERNEL_F},
                  {PST_CONVERT_SUM, PST_KERNEL_B},      {PST_CONVERT_JOIN, PST_KERNEL_F},
                  {PST_CONVERT_EXCHANGE, PST_KERNEL_F}, {PST_CONVERT_EXCHANGE, PST_KERNEL_B},
                  {PST_CONVERT_FAN, PST_KERNEL_W},      {PST_CONVERT_JOIN, PST_KERNEL_W}};
    struct pst_device *device = rig_open("auto", 2);
    struct pst_kernel *kernel = NULL;
    struct pst_error err = {0};
    struct conversion c;

    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        make(&c, others[i].convert, PST_F32);
        assert_int_equal(rig_ops->workspace(device, &c.graph, 0, others[i].pass, SAMPLES), 0);
        assert_int_equal(
            rig_ops->compile(device, &c.graph, 0, others[i].pass, SAMPLES, &kernel, &err),
            PST_ERR_UNSUPPORTED);
        assert_string_equal(err.kind, "device.kernel");
    }
    rig_ops->close(device);
}
