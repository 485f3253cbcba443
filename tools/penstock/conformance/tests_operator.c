/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of operators: their kernels by their own examples. What the executor relies on is that
 * equal operands give equal bits, whatever runs beside them; what training relies on, that
 * gradients are those of the forward pass.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "conformance/operator_rig.h"
#include "conformance/tests.h"
#include "conformance/verdict.h"

enum { EXAMPLES = 64, SAMPLES = 5, MOST_DIFFERENCES = 512 };

static const struct pst_manners polite;
static const char *const dtypes[] = {"f32", "bf16", "f64"};

/* --- one after the other -----------------------------------------------------------------------*/

static void must(const char *broken, uint32_t example, uint32_t dtype)
{
    if (broken[0] != '\0') {
        pst_verdict_fail("%s (example %u, %s)", broken, example, dtypes[dtype]);
    }
}

/* False: there is no such example. */
static bool start(struct pst_operator_rig *rig, struct pst_rig *host, uint32_t example,
                  uint32_t dtype, uint32_t samples, uint64_t first)
{
    struct pst_error err = {0};
    bool more = false;

    if (pst_operator_rig_init(rig, &host->instance, example, dtype, samples, first,
                              host->subject->seed, &more, &err) != PST_OK) {
        pst_verdict_fail("%s (example %u, %s)", err.message, example, dtypes[dtype]);
    }
    if (!more && example == 0) {
        pst_verdict_fail("example() gives none");
    }
    return more;
}

static const struct pst_operator_kernels *host_kernels(struct pst_rig *host)
{
    const struct pst_operator *f = host->instance.plugin->get_interface(PST_OPERATOR);
    const struct pst_operator_kernels *kernels = f->kernels(host->instance.self, "cpu");

    if (f->kernels(host->instance.self, "no such device") != NULL) {
        pst_verdict_fail("kernels() gives some for a device that does not exist");
    }
    if (kernels != f->kernels(host->instance.self, "cpu")) {
        pst_verdict_fail("kernels() does not give the same table every time");
    }
    if (kernels == NULL) {
        pst_verdict_skip("it has no kernels for device cpu, where they are tried");
    }
    if (!PST_CAN(kernels, run) || (kernels->dtypes & 7) == 0) {
        pst_verdict_fail("its kernels for cpu lack run(), or a type of f32, bf16 and f64");
    }
    return kernels;
}

static void begin(struct pst_rig *host, struct pst_subject *subject)
{
    if (pst_rig_init(host, subject, &polite) != PST_OK) {
        pst_verdict_fail("create() failed: %s", host->said);
    }
}

/* --- gradients ---------------------------------------------------------------------------------*/

/* The sum of dy y, and of the magnitudes in it. */
static double functional(struct pst_operator_rig *rig, double *ret_magnitude)
{
    double sum = 0, magnitude = 0;

    must(pst_operator_rig_run(rig, PST_OPERATOR_F), rig->number, rig->dtype);
    for (uint64_t i = 0; i < rig->dy.elems; i++) {
        const double term = pst_operand_get(&rig->dy, i) * pst_operand_get(&rig->y[0], i);

        sum += term;
        magnitude += fabs(term);
    }
    *ret_magnitude = magnitude;
    return sum;
}

struct slope {
    double central, tolerance;
    bool kink;
    double least, most; /* of the two sides of a kink */
};

/*
 * The central difference D(h) by one variable. Its truncation error falls with h^2, so D(h) - D(2h)
 * is three times that of D(h). To it comes the rounding of the functional, by h: 64 roundings that
 * a term goes through. Where the function is smooth, the slopes of both sides differ by h times its
 * curvature, for 2h by twice as much; else there is a kink, and any slope between them is right.
 */
static struct slope differentiate(struct pst_operator_rig *rig, struct pst_operand_block *variables,
                                  uint64_t i)
{
    const bool wide = rig->dtype == PST_F64;
    const double base = pst_operand_get(variables, i), h = wide ? 1e-4 : 1e-2;
    double slope[2], gap[2], magnitude = 0, rounding;
    const double here = functional(rig, &magnitude);
    struct slope s = {0};

    for (uint32_t k = 0; k < 2; k++) {
        double at[2], value[2], sides[2];

        for (uint32_t side = 0; side < 2; side++) {
            pst_operand_put(variables, i, base + (side == 0 ? h : -h) * (k + 1));
            at[side] = pst_operand_get(variables, i); /* rounded to its type */
            value[side] = functional(rig, &magnitude);
            sides[side] = (value[side] - here) / (at[side] - base);
        }
        slope[k] = (value[0] - value[1]) / (at[0] - at[1]);
        gap[k] = sides[0] - sides[1];
        s.least = k == 0 ? fmin(sides[0], sides[1]) : s.least;
        s.most = k == 0 ? fmax(sides[0], sides[1]) : s.most;
    }
    pst_operand_put(variables, i, base);
    rounding = 64 * (wide ? DBL_EPSILON : FLT_EPSILON) * (magnitude + 1) / h;
    s.central = slope[0];
    s.tolerance = fabs(slope[0] - slope[1]) + rounding;
    s.kink = fabs(2 * gap[0] - gap[1]) > rounding;
    s.least -= s.kink ? rounding : 0;
    s.most += s.kink ? rounding : 0;
    return s;
}

/* Is it the central difference? At a kink it need not be. */
static bool is_central(const struct slope *s, double found)
{
    return fabs(found - s->central) <= s->tolerance;
}

/* The gradients of one operand. A tolerance that is not far below the largest is blind; a tenth of
   the elements, at least one, may be at a kink. */
static void compare(struct pst_operator_rig *rig, const char *name, uint32_t number,
                    struct pst_operand_block *variables, const struct pst_operand_block *gradient,
                    uint32_t example)
{
    const uint64_t step = 1 + gradient->elems / MOST_DIFFERENCES;
    const double sharp = rig->dtype == PST_F64 ? 1e-4 : 0.1;
    double largest = 0;
    uint64_t n = 0, n_blind = 0, n_kinks = 0;

    for (uint64_t i = 0; i < gradient->elems; i++) {
        largest = fmax(largest, fabs(pst_operand_get(gradient, i)));
    }
    for (uint64_t i = 0; i < gradient->elems; i += step) {
        const double found = pst_operand_get(gradient, i);
        const struct slope slope = differentiate(rig, variables, i);
        const bool central = is_central(&slope, found), sees = slope.tolerance <= sharp * largest;

        n++;
        n_kinks += slope.kink && !(central && sees);
        n_blind += !slope.kink && !sees;
        if (!central && !(slope.kink && slope.least <= found && found <= slope.most)) {
            pst_verdict_fail("%s[%u] has gradient %.9g at element %llu, its differences say %.9g "
                             "+- %.2g (example %u, %s)",
                             name, number, found, (unsigned long long)i, slope.central,
                             slope.tolerance, example, dtypes[rig->dtype]);
        }
    }
    if ((largest > 0 && 10 * n_blind > n) || 10 * n_kinks > n + 9) {
        pst_verdict_fail("the gradient of %s[%u] cannot be judged: differences are too coarse for "
                         "%llu of %llu elements (example %u, %s); kernels for f64 or smaller "
                         "examples would help",
                         name, number, (unsigned long long)(n_blind + n_kinks),
                         (unsigned long long)n, example, dtypes[rig->dtype]);
    }
}

/* Of 2 samples, so that sums over samples count. */
static void check_gradients(struct pst_operator_rig *rig, uint32_t example)
{
    const struct pst_operator_question *q = &rig->custom->question;
    struct pst_operand_block *const gradients[2] = {rig->dx, rig->dp};
    struct pst_operand_block *const variables[2] = {rig->x, rig->p};
    const uint32_t n[2] = {q->n_x, q->n_p};
    bool differs = false, any = false;

    must(pst_operator_rig_run_all(rig), example, rig->dtype);
    for (uint32_t kind = 0; kind < 2; kind++) {
        for (uint32_t i = 0; i < n[kind]; i++) {
            const struct pst_operand_block *gradient = &gradients[kind][i];

            for (uint64_t k = 0; k < gradient->elems; k++) {
                differs = differs || pst_operand_get(gradient, k) != 0;
            }
            any = any || gradient->elems > 0;
            if (gradient->elems > 0) {
                compare(rig, kind == 0 ? "x" : "p", i, &variables[kind][i], gradient, example);
            }
        }
    }
    if (any && !differs) {
        pst_verdict_fail("all gradients of example %u are 0, so that nothing is seen", example);
    }
}

void pst_test_gradients(struct pst_subject *subject)
{
    struct pst_operator_rig rig;
    struct pst_rig host;
    uint32_t has, dtype;

    begin(&host, subject);
    has = host_kernels(&host)->dtypes;
    dtype = (has >> PST_F64 & 1) != 0 ? PST_F64 : PST_F32;
    if ((has >> dtype & 1) == 0) {
        pst_verdict_skip("it has kernels for bf16 alone, whose differences are too coarse");
    }
    for (uint32_t i = 0; i < EXAMPLES && start(&rig, &host, i, dtype, 2, 0); i++) {
        check_gradients(&rig, i);
        pst_operator_rig_finish(&rig);
    }
    pst_rig_finish(&host);
}

/* --- bits --------------------------------------------------------------------------------------*/

/* n elements of a, from a_first on, and of b. */
static bool same_bits(const struct pst_operand_block *a, uint64_t a_first,
                      const struct pst_operand_block *b, uint64_t b_first, uint64_t n)
{
    const uint64_t size = pst_dtype_bytes(b->dtype);

    return n == 0 || memcmp(a->base + a_first * size, b->base + b_first * size, n * size) == 0;
}

/* Do y and dx of the samples [first, first + part->samples) of `whole` have the bits of `part`? */
static const char *sample_differs(const struct pst_operator_rig *whole, uint64_t first,
                                  const struct pst_operator_rig *part)
{
    const uint32_t n_y = whole->custom->row.n_y;

    for (uint32_t i = 0; i < n_y; i++) {
        const uint64_t elems = part->y[i].elems;

        if (!same_bits(&whole->y[i], first * (elems / part->samples), &part->y[i], 0, elems)) {
            return "y";
        }
    }
    for (uint32_t i = 0; i < whole->custom->question.n_x; i++) {
        const uint64_t elems = part->dx[i].elems;

        if ((part->without_dx >> i & 1) == 0 &&
            !same_bits(&whole->dx[i], first * (elems / part->samples), &part->dx[i], 0, elems)) {
            return "dx";
        }
    }
    return NULL;
}

/* All results of two rigs of the same samples. */
static const char *result_differs(const struct pst_operator_rig *a,
                                  const struct pst_operator_rig *b)
{
    const char *differs = sample_differs(a, 0, b);

    for (uint32_t i = 0; differs == NULL && i < a->custom->question.n_p; i++) {
        differs = same_bits(&a->dp[i], 0, &b->dp[i], 0, a->dp[i].elems) ? NULL : "dp";
    }
    return differs;
}

static void check_same(const char *differs, const char *when, uint32_t example, uint32_t dtype)
{
    if (differs != NULL) {
        pst_verdict_fail("%s has other bits %s (example %u, %s)", differs, when, example,
                         dtypes[dtype]);
    }
}

static void check_splits(const struct pst_operator_rig *whole, struct pst_rig *host,
                         uint32_t example)
{
    static const char *const when[PST_SPLITS] = {
        "when it is computed again", "when parallel() gives each item by itself, from the last",
        "with three threads"};

    for (uint32_t split = 0; split < PST_SPLITS; split++) {
        struct pst_operator_rig again;

        start(&again, host, example, whole->dtype, SAMPLES, 0);
        again.split = split;
        must(pst_operator_rig_run_all(&again), example, whole->dtype);
        check_same(result_differs(whole, &again), when[split], example, whole->dtype);
        pst_operator_rig_finish(&again);
    }
}

/* The micro-batch in two parts; and W once more after other calls, as it may be late. */
static void check_parts(struct pst_operator_rig *whole, struct pst_rig *host, uint32_t example)
{
    static const uint32_t parts[] = {2, SAMPLES - 2};
    struct pst_operator_rig part, late;
    uint64_t first = 0;

    start(&late, host, example, whole->dtype, SAMPLES, 0);
    must(pst_operator_rig_run_all(&late), example, whole->dtype);
    for (uint32_t i = 0; i < 2; i++) {
        start(&part, host, example, whole->dtype, parts[i], first);
        must(pst_operator_rig_run_all(&part), example, whole->dtype);
        check_same(sample_differs(whole, first, &part), "in a smaller micro-batch", example,
                   whole->dtype);
        pst_operator_rig_finish(&part);
        first += parts[i];
    }
    if (whole->custom->question.n_p > 0) {
        must(pst_operator_rig_run(&late, PST_OPERATOR_W), example, whole->dtype);
        check_same(result_differs(whole, &late), "when W comes later than B", example,
                   whole->dtype);
    }
    pst_operator_rig_finish(&late);
}

/* F that runs again has the same bits; in evaluation it writes all, too. */
static void check_flags(const struct pst_operator_rig *whole, struct pst_rig *host,
                        uint32_t example)
{
    struct pst_operator_rig again;

    start(&again, host, example, whole->dtype, SAMPLES, 0);
    again.without_dx = UINT32_MAX; /* y alone is compared */
    again.flags = PST_OPERATOR_TRAINING | PST_OPERATOR_REPLAY;
    must(pst_operator_rig_run(&again, PST_OPERATOR_F), example, whole->dtype);
    check_same(sample_differs(whole, 0, &again), "when it is replayed", example, whole->dtype);
    again.flags = 0;
    must(pst_operator_rig_run(&again, PST_OPERATOR_F), example, whole->dtype);
    pst_operator_rig_finish(&again);
}

/* Whole numbers of data may have any value: the kernels run, and stay inside their operands. */
static void check_numbers(const struct pst_operator_rig *whole, struct pst_rig *host,
                          uint32_t example)
{
    struct pst_operator_rig other;
    bool any = false;

    start(&other, host, example, whole->dtype, SAMPLES, 0);
    for (uint32_t i = 0; i < other.custom->question.n_x; i++) {
        const double numbers[] = {-1, other.example.below[i], INT32_MAX, INT32_MIN};

        for (uint64_t k = 0; other.x[i].dtype == PST_I32 && k < other.x[i].elems; k++) {
            pst_operand_put(&other.x[i], k, numbers[k % 4]);
            any = true;
        }
    }
    if (any) {
        must(pst_operator_rig_run_all(&other), example, whole->dtype);
    }
    pst_operator_rig_finish(&other);
}

/* Gradients of one input where nobody wants those of the others, and where nobody wants any: B then
   runs only for the buffers that W reads. */
static void check_wanted(const struct pst_operator_rig *whole, struct pst_rig *host,
                         uint32_t example)
{
    const uint32_t n_x = whole->custom->question.n_x;

    for (uint32_t i = n_x > 1 ? 0 : n_x; i <= n_x; i++) {
        struct pst_operator_rig one;

        start(&one, host, example, whole->dtype, SAMPLES, 0);
        one.without_dx = i < n_x ? ~(1u << i) : UINT32_MAX;
        must(pst_operator_rig_run_all(&one), example, whole->dtype);
        check_same(result_differs(whole, &one),
                   i < n_x ? "if the other gradients are not requested"
                           : "if no gradients of inputs are requested",
                   example, whole->dtype);
        pst_operator_rig_finish(&one);
    }
}

/* Other values in rows from `cut` on, in all samples. */
static void change_later(struct pst_operator_rig *rig, uint64_t cut)
{
    const uint64_t rows = rig->custom->row.y[0].dims[0];

    for (uint32_t i = 0; i < rig->custom->question.n_x; i++) {
        struct pst_operand_block *x = &rig->x[i];
        const struct pst_operator_example *e = &rig->example;
        const double ends = x->dtype == PST_I32 ? e->below[i] - 1 : e->low + e->high;
        const uint64_t row = x->elems / (rows * rig->samples);

        for (uint64_t k = 0; k < x->elems; k++) {
            if (k / row % rows >= cut) {
                pst_operand_put(x, k, ends - pst_operand_get(x, k));
            }
        }
    }
}

/* Rows of the result that come before the changed ones. Returns the number of cuts. */
static uint32_t check_causal(const struct pst_operator_rig *whole, struct pst_rig *host,
                             uint32_t example)
{
    const struct pst_operator_row *row = &whole->custom->row;
    const bool causal = (row->flags & PST_OPERATOR_CAUSAL) != 0;
    const uint64_t rows = causal ? row->y[0].dims[0] : 0, step = 1 + rows / 16;
    uint32_t n = 0;

    for (uint64_t cut = 1; cut < rows; cut += step) {
        struct pst_operator_rig other;
        const uint64_t elems = whole->y[0].elems / whole->samples;

        start(&other, host, example, whole->dtype, SAMPLES, 0);
        change_later(&other, cut);
        must(pst_operator_rig_run(&other, PST_OPERATOR_F), example, whole->dtype);
        for (uint64_t s = 0; s < SAMPLES; s++) {
            if (!same_bits(&whole->y[0], s * elems, &other.y[0], s * elems, elems / rows * cut)) {
                pst_verdict_fail("PST_OPERATOR_CAUSAL is not true: rows from %llu on of x change "
                                 "earlier ones of y (example %u, %s)",
                                 (unsigned long long)cut, example, dtypes[whole->dtype]);
            }
        }
        pst_operator_rig_finish(&other);
        n++;
    }
    return causal ? n : 1;
}

void pst_test_kernels(struct pst_subject *subject)
{
    struct pst_rig host;
    uint32_t has, n_causal = 0;

    begin(&host, subject);
    has = host_kernels(&host)->dtypes;
    for (uint32_t dtype = 0; dtype <= PST_F64; dtype++) {
        struct pst_operator_rig whole;

        if ((has >> dtype & 1) == 0) {
            continue;
        }
        for (uint32_t i = 0; i < EXAMPLES && start(&whole, &host, i, dtype, SAMPLES, 0); i++) {
            must(pst_operator_rig_run_all(&whole), i, dtype);
            check_splits(&whole, &host, i);
            check_parts(&whole, &host, i);
            check_wanted(&whole, &host, i);
            check_flags(&whole, &host, i);
            check_numbers(&whole, &host, i);
            n_causal += check_causal(&whole, &host, i);
            pst_operator_rig_finish(&whole);
        }
    }
    if (n_causal == 0) {
        pst_verdict_fail("its rows state PST_OPERATOR_CAUSAL, but no example has a second row");
    }
    pst_rig_finish(&host);
}
