/* SPDX-License-Identifier: Apache-2.0
 *
 * A vocabulary over parts on the cpu device, with own and with reference kernels: cross-entropy and
 * its gradient against the formula in double, tables against their rows. Padding, what no part has,
 * and classes that are ruled out by an infinite logit.
 */
#include "cpu_rig.h"

#include "graph/split.h"

TEST_GROUP(rig_load, NULL)

enum { ROWS = 5, SAMPLES = 2, MOST_PARTS = 8, MOST = 64 };

static struct pst_device *device;
static uint32_t dtype;

static void *room(uint64_t elems)
{
    return test_calloc(elems + 1, sizeof(double));
}

/* Values that bf16 holds, too. */
static float value_of(uint32_t i)
{
    return (float)((int)(i * 2654435761u >> 7) % 64) / 16;
}

static void put(void *values, uint64_t i, float value)
{
    if (dtype == PST_BF16) {
        ((uint16_t *)values)[i] = pst_bf16_round(value);
    } else {
        ((float *)values)[i] = value;
    }
}

static double get(const void *values, uint64_t i)
{
    return dtype == PST_BF16 ? (double)pst_bf16_load(((const uint16_t *)values)[i])
                             : (double)((const float *)values)[i];
}

static void run(const struct pst_graph *graph, uint32_t op, uint32_t pass, struct pst_call *call)
{
    struct pst_kernel *kernel = NULL;
    struct pst_error err = {0};

    assert_ok(rig_ops->compile(device, graph, op, pass, SAMPLES, &kernel, &err), &err);
    assert_int_equal(kernel->workspace_bytes, rig_ops->workspace(device, graph, op, pass, SAMPLES));
    call->workspace = room(kernel->workspace_bytes);
    kernel->run(kernel, call);
    kernel->destroy(kernel);
    test_free(call->workspace);
}

/* --- cross-entropy -----------------------------------------------------------------------------*/

struct loss_case {
    uint32_t parts, classes;
    float smoothing, z_loss;
    bool trains;
    float logits[SAMPLES][ROWS][MOST];
    int32_t targets[SAMPLES][ROWS];
    double losses[SAMPLES], gradient[SAMPLES][ROWS][MOST];
};

/* Loss and gradient by their formula. */
static void expect_row(struct loss_case *c, uint32_t s, uint32_t r, double counted)
{
    const double n = c->classes, smoothing = c->trains ? (double)c->smoothing : 0;
    const double z = c->trains ? (double)c->z_loss : 0;
    const int32_t target = c->targets[s][r];
    double sum = 0, mean = 0, lse;

    for (uint32_t i = 0; i < c->classes; i++) {
        sum += exp((double)c->logits[s][r][i]);
        mean += (double)c->logits[s][r][i] / n;
    }
    lse = log(sum);
    if (target < 0) {
        return;
    }
    if (target >= (int32_t)c->classes) {
        c->losses[s] = NAN;
        return;
    }
    c->losses[s] += (lse - (1 - smoothing) * (double)c->logits[s][r][target] -
                     (smoothing > 0 ? smoothing * mean : 0) + z * lse * lse) /
                    counted;
    for (uint32_t i = 0; i < c->classes; i++) {
        const double p = exp((double)c->logits[s][r][i] - lse);

        c->gradient[s][r][i] = (p * (1 + 2 * (double)c->z_loss * lse) - (double)c->smoothing / n -
                                ((int32_t)i == target ? 1 - (double)c->smoothing : 0)) /
                               counted;
    }
}

static void expect(struct loss_case *c)
{
    for (uint32_t s = 0; s < SAMPLES; s++) {
        double counted = 0;

        for (uint32_t r = 0; r < ROWS; r++) {
            counted += c->targets[s][r] >= 0;
        }
        for (uint32_t r = 0; r < ROWS; r++) {
            expect_row(c, s, r, counted);
        }
    }
}

/* x, targets -> part, parts -> loss */
static struct pst_graph *make_loss(const struct loss_case *c)
{
    const uint64_t own = (c->classes + c->parts - 1) / c->parts, shape[2] = {ROWS, own};
    struct pst_graph_builder *b = NULL;
    struct pst_graph *graph = NULL;
    struct pst_error err = {0};
    struct pst_op op = {.kind = PST_OP_CE_PART,
                        .name = "part",
                        .n_in = 2,
                        .parts = c->parts,
                        .classes = c->classes};
    struct pst_op join = {.kind = PST_OP_CONVERT,
                          .name = "parts",
                          .n_in = 1,
                          .convert = PST_CONVERT_JOIN,
                          .parts = c->parts};
    uint32_t in[3], part;

    assert_ok(pst_graph_builder_create("loss", dtype, &b, &err), &err);
    in[0] = pst_graph_input(b, "x", PST_FIELD_X, dtype, 2, shape);
    in[1] = pst_graph_input(b, "t", PST_FIELD_TARGET, PST_I32, 1, shape);
    op.in = in;
    part = pst_graph_add(b, &op);
    join.in = &part;
    in[2] = pst_graph_add(b, &join);
    op.kind = PST_OP_CE_JOIN;
    op.name = "loss";
    op.n_in = 3;
    op.smoothing = c->smoothing;
    op.z_loss = c->z_loss;
    assert_ok(pst_graph_finish(b, pst_graph_add(b, &op), PST_NONE, &graph, &err), &err);
    pst_graph_builder_destroy(b);
    return graph;
}

/* The own columns of a part; padding would be the greatest logits of all. */
static void *columns_of(const struct loss_case *c, uint32_t part)
{
    const uint32_t own = (c->classes + c->parts - 1) / c->parts;
    void *x = room(SAMPLES * ROWS * own);

    for (uint32_t i = 0; i < SAMPLES * ROWS * own; i++) {
        const uint32_t class = part * own + i % own;

        put(x, i, class < c->classes ? c->logits[i / own / ROWS][i / own % ROWS][class] : 100.0f);
    }
    return x;
}

static void check_gradient(const struct loss_case *c, uint32_t part, const void *dx)
{
    const uint32_t own = (c->classes + c->parts - 1) / c->parts;

    for (uint32_t i = 0; i < SAMPLES * ROWS * own; i++) {
        const uint32_t s = i / own / ROWS, r = i / own % ROWS, class = part * own + i % own;
        const double wanted = class < c->classes ? c->gradient[s][r][class] : 0;
        const double off = dtype == PST_BF16 ? fabs(wanted) / 256 : 0;

        if (c->targets[s][r] < (int32_t)c->classes && !(fabs(get(dx, i) - wanted) <= off + 3e-7)) {
            fail_msg("%u parts of %u: gradient of class %u of row %u is %g, not %g", c->parts,
                     c->classes, class, r, get(dx, i), wanted);
        }
    }
}

static void check_loss(struct loss_case *c)
{
    struct pst_graph *graph = make_loss(c);
    const uint32_t n = ROWS * PST_CE_NUMBERS;
    float *numbers = room(SAMPLES * MOST_PARTS * n), own[SAMPLES * ROWS * PST_CE_NUMBERS];
    float losses[SAMPLES], lse[SAMPLES * ROWS];

    expect(c);
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t k = 0; k < c->parts; k++) {
            void *x[3] = {columns_of(c, k), c->targets, numbers}, *y[2] = {own, NULL};
            void *dx[3] = {room(SAMPLES * ROWS * MOST), NULL, NULL}, *none[3] = {NULL};
            struct pst_call call = {.x = x,
                                    .y = y,
                                    .dx = dx,
                                    .add = none,
                                    .scale = 1,
                                    .flags = c->trains ? PST_CALL_TRAINING : 0,
                                    .part = k};

            if (pass == 0) {
                run(graph, 0, PST_KERNEL_F, &call);
                for (uint32_t s = 0; s < SAMPLES; s++) {
                    memcpy(&numbers[(s * c->parts + k) * n], &own[s * n], n * sizeof *own);
                }
            } else {
                y[0] = losses;
                y[1] = lse;
                run(graph, 2, PST_KERNEL_F, &call);
                for (uint32_t s = 0; s < SAMPLES; s++) {
                    if (isnan(c->losses[s]) ? !isnan(losses[s])
                                            : !(fabs((double)losses[s] - c->losses[s]) <=
                                                2e-6 * fabs(c->losses[s]))) {
                        fail_msg("%u parts of %u: loss %g, not %g", c->parts, c->classes,
                                 (double)losses[s], c->losses[s]);
                    }
                }
                run(graph, 2, PST_KERNEL_B, &call);
                check_gradient(c, k, dx[0]);
            }
            test_free(x[0]);
            test_free(dx[0]);
        }
    }
    test_free(numbers);
    pst_graph_destroy(graph);
}

static void make_case(struct loss_case *c, uint32_t parts, uint32_t classes)
{
    memset(c, 0, sizeof *c);
    c->parts = parts;
    c->classes = classes;
    c->trains = true;
    for (uint32_t i = 0; i < SAMPLES * ROWS; i++) {
        for (uint32_t v = 0; v < classes; v++) {
            c->logits[i / ROWS][i % ROWS][v] = value_of(i * MOST + v + 1);
        }
        c->targets[i / ROWS][i % ROWS] = i == 3 ? -1 : (int32_t)(i * 7 % classes);
    }
    c->targets[1][4] = (int32_t)classes - 1;
}

static void check_losses(uint32_t parts, uint32_t classes)
{
    static struct loss_case c;

    for (uint32_t i = 0; i < 5; i++) {
        make_case(&c, parts, classes);
        c.smoothing = i & 1 ? 0.125f : 0;
        c.z_loss = i & 2 ? 0.03125f : 0;
        c.trains = i < 4;
        check_loss(&c);
    }
    make_case(&c, parts, classes);
    c.targets[1][2] = (int32_t)classes;
    check_loss(&c);
    make_case(&c, parts, classes); /* all classes of some parts, and some of others */
    for (uint32_t v = 0; v + 1 < classes; v++) {
        c.logits[0][1][v] = -INFINITY;
    }
    c.targets[0][1] = (int32_t)classes - 1;
    check_loss(&c);
}

/* --- tables ------------------------------------------------------------------------------------*/

enum { COLUMNS = 3 };

static struct pst_graph *make_table(uint32_t parts, uint32_t rows)
{
    const uint64_t own = (rows + parts - 1) / parts, shape[2] = {own, COLUMNS}, tokens = ROWS;
    struct pst_graph_builder *b = NULL;
    struct pst_graph *graph = NULL;
    struct pst_error err = {0};
    uint32_t x, param, in[2];
    const struct pst_op op = {.kind = PST_OP_EMBEDDING,
                              .name = "table",
                              .in = &x,
                              .n_in = 1,
                              .param = &param,
                              .n_param = 1,
                              .padding = 2,
                              .parts = parts,
                              .classes = rows};

    assert_ok(pst_graph_builder_create("table", dtype, &b, &err), &err);
    x = pst_graph_input(b, "x", PST_FIELD_X, PST_I32, 1, &tokens);
    in[1] = pst_graph_input(b, "t", PST_FIELD_TARGET, PST_I32, 1, &tokens);
    param = pst_graph_param(b, "rows", 2, shape, PST_INIT_ZERO, 0, false);
    in[0] = pst_graph_add(b, &op);
    in[0] = pst_graph_add(
        b, &(struct pst_op){.kind = PST_OP_CROSS_ENTROPY, .name = "loss", .in = in, .n_in = 2});
    assert_ok(pst_graph_finish(b, in[0], PST_NONE, &graph, &err), &err);
    pst_graph_builder_destroy(b);
    return graph;
}

/* Token 1 has no gradient; one is no token, and one beyond the last. */
static void check_table(uint32_t parts, uint32_t rows)
{
    const int32_t tokens[SAMPLES * ROWS] = {
        0, 1, (int32_t)rows - 1, -1, (int32_t)rows, 2, (int32_t)rows - 1, 0, 1, 2};
    const uint32_t own = (rows + parts - 1) / parts;
    struct pst_graph *graph = make_table(parts, rows);

    for (uint32_t k = 0; k < parts; k++) {
        void *x[1] = {(void *)(uintptr_t)tokens}, *p[2] = {room(own * COLUMNS), NULL};
        void *y[1] = {room(SAMPLES * ROWS * COLUMNS)}, *dy = room(SAMPLES * ROWS * COLUMNS);
        float *dp[2] = {room(own * COLUMNS), NULL};
        double sums[MOST][COLUMNS] = {{0}};
        struct pst_call call = {.x = x, .p = p, .y = y, .dy = dy, .dp = dp, .part = k};

        for (uint32_t i = 0; i < own * COLUMNS; i++) {
            put(p[0], i, value_of(k * own * COLUMNS + i));
        }
        run(graph, 0, PST_KERNEL_F, &call);
        for (uint32_t i = 0; i < SAMPLES * ROWS * COLUMNS; i++) {
            const int32_t token = tokens[i / COLUMNS];
            const bool is_one = token >= 0 && token < (int32_t)rows;
            const bool here = is_one && (uint32_t)token / own == k;
            const double found = get(y[0], i);

            put(dy, i, value_of(i));
            assert_true(
                is_one ? found ==
                             (here ? (double)value_of((uint32_t)token * COLUMNS + i % COLUMNS) : 0)
                       : isnan(found));
            if (here && token != 1) {
                sums[(uint32_t)token - k * own][i % COLUMNS] += (double)value_of(i);
            }
        }
        run(graph, 0, PST_KERNEL_W, &call);
        for (uint32_t i = 0; i < own * COLUMNS; i++) {
            assert_true((double)dp[0][i] == sums[i / COLUMNS][i % COLUMNS]);
        }
        test_free(p[0]);
        test_free(y[0]);
        test_free(dy);
        test_free(dp[0]);
    }
    pst_graph_destroy(graph);
}

/* --- all ---------------------------------------------------------------------------------------*/

static void on_all(void (*check)(uint32_t parts, uint32_t n))
{
    static const uint32_t dtypes[] = {PST_F32, PST_BF16};

    for (uint32_t i = 0; i < 6; i++) {
        device = rig_open(i / 2 == 2 ? "reference" : "auto", 1 + i / 2 % 2);
        dtype = dtypes[i % 2];
        check(2, 6);
        check(2, 13);
        check(3, 61);
        check(8, 9); /* three parts have nothing but padding */
        check(4, 5);
        rig_ops->close(device);
    }
}

TEST(losses)
{
    on_all(check_losses);
}

TEST(tables)
{
    on_all(check_table);
}
