/* SPDX-License-Identifier: Apache-2.0
 *
 * A small evaluator, for what hangs on no sample: shapes, positions, masks. Reals of 32 bits are
 * rounded to them after every operation. Where all elements are the same one stands for them, so
 * that weights of a constant cost nothing.
 */
#include "onnx.h"

#include <math.h>
#include <string.h>

#define MAX_HELD  ((uint64_t)1 << 30)
#define MAX_DEPTH 64 /* of what is computed only when it is asked for */

struct onnx_data *onnx_data_new(struct onnx_model *model, const struct onnx_value *value,
                                bool uniform)
{
    const uint64_t n = uniform ? 1 : onnx_elems(value);
    const uint64_t most = model->most_held == 0 ? MAX_HELD : model->most_held;
    struct onnx_data *data;

    if (model->held > most || n > (most - model->held) / 8) {
        model->full = true;
        return NULL;
    }
    model->held += n * 8;
    data = pst_arena_alloc(&model->numbers, sizeof *data, 0);
    data->real = onnx_is_real(value->type);
    data->uniform = uniform;
    data->i = pst_arena_array(&model->numbers, n == 0 ? 1 : n, 8);
    return data;
}

struct fold {
    struct onnx_model *model;
    const struct onnx_node *node;
    struct onnx_value *x, *y;     /* the first input, the first output */
    const struct onnx_data *data; /* of x */
};

/* The nearest real of so many binary digits after the first one. */
static double round_real(double number, int digits, int least_exponent)
{
    const int exponent = isfinite(number) && number != 0 ? ilogb(number) : least_exponent;
    const double unit = ldexp(1, (exponent > least_exponent ? exponent : least_exponent) - digits);

    return nearbyint(number / unit) * unit;
}

static double real_of_type(uint32_t type, double number)
{
    switch (type) {
    case ONNX_DOUBLE:
        return number;
    case ONNX_FLOAT16:
        number = round_real(number, 10, -14);
        return fabs(number) > 65504 ? copysign(INFINITY, number) : number;
    case ONNX_BFLOAT16:
        return (double)(float)round_real(number, 7, -126);
    default:
        return (double)(float)number;
    }
}

/* The lowest bits of an integer, as casts keep them. */
static int64_t integer_of_type(uint32_t type, int64_t a)
{
    switch (type) {
    case ONNX_INT8:
        return (int8_t)a;
    case ONNX_UINT8:
        return (uint8_t)a;
    case ONNX_INT16:
        return (int16_t)a;
    case ONNX_UINT16:
        return (uint16_t)a;
    case ONNX_INT32:
        return (int32_t)a;
    case ONNX_UINT32:
        return (uint32_t)a;
    default:
        return a;
    }
}

static void set_real(const struct onnx_value *value, struct onnx_data *data, uint64_t i,
                     double number)
{
    if (!data->real) {
        data->i[i] = integer_of_type(
            value->type, isfinite(number) ? (int64_t)fmax(fmin(number, 0x1p62), -0x1p62) : 0);
        if (value->type == ONNX_BOOL) {
            data->i[i] = number != 0;
        }
    } else {
        data->f[i] = real_of_type(value->type, number);
    }
}

/* --- by element ------------------------------------------------------------------------------- */

static double real_of_one(const struct onnx_node *node, double a)
{
    const double sqrt_2 = 1.4142135623730951;

    switch (node->op) {
    case ONNX_Abs:
        return fabs(a);
    case ONNX_Ceil:
        return ceil(a);
    case ONNX_Cos:
        return cos(a);
    case ONNX_Erf:
        return erf(a);
    case ONNX_Exp:
        return exp(a);
    case ONNX_Floor:
        return floor(a);
    case ONNX_Gelu:
        return 0.5 * a * (1 + erf(a / sqrt_2));
    case ONNX_IsNaN:
        return isnan(a);
    case ONNX_Log:
        return log(a);
    case ONNX_Neg:
        return -a;
    case ONNX_Not:
        return a == 0;
    case ONNX_Reciprocal:
        return 1 / a;
    case ONNX_Relu:
        return a > 0 ? a : 0;
    case ONNX_Round:
        return nearbyint(a);
    case ONNX_Sigmoid:
        return 1 / (1 + exp(-a));
    case ONNX_Sign:
        return (a > 0) - (a < 0);
    case ONNX_Sin:
        return sin(a);
    case ONNX_Sqrt:
        return sqrt(a);
    case ONNX_Tanh:
        return tanh(a);
    default: /* Cast, CastLike, Dropout, Identity */
        return a;
    }
}

static double real_of_two(const struct onnx_node *node, double a, double b)
{
    switch (node->op) {
    case ONNX_Add:
    case ONNX_Sum:
        return a + b;
    case ONNX_Sub:
        return a - b;
    case ONNX_Mul:
        return a * b;
    case ONNX_Div:
        return a / b;
    case ONNX_Pow:
        return pow(a, b);
    case ONNX_Mod:
        return onnx_int(node, "fmod", 0) != 0 ? fmod(a, b) : a - floor(a / b) * b;
    case ONNX_Max:
        return a > b || isnan(a) ? a : b;
    case ONNX_Min:
        return a < b || isnan(a) ? a : b;
    case ONNX_Equal:
        return a == b;
    case ONNX_Less:
        return a < b;
    case ONNX_LessOrEqual:
        return a <= b;
    case ONNX_Greater:
        return a > b;
    case ONNX_GreaterOrEqual:
        return a >= b;
    case ONNX_And:
        return a != 0 && b != 0;
    case ONNX_Or:
        return a != 0 || b != 0;
    default: /* Xor */
        return (a != 0) != (b != 0);
    }
}

/* These operators are exact, in 2's complement; all others are computed in reals. */
static int64_t integer_of_two(const struct onnx_node *node, int64_t a, int64_t b)
{
    const uint64_t left = (uint64_t)a, right = (uint64_t)b;
    int64_t rest;

    switch (node->op) {
    case ONNX_Add:
    case ONNX_Sum:
        return (int64_t)(left + right);
    case ONNX_Sub:
        return (int64_t)(left - right);
    case ONNX_Mul:
        return (int64_t)(left * right);
    case ONNX_Div:
        return b == 0 ? 0 : b == -1 ? (int64_t)(0 - left) : a / b;
    case ONNX_Mod:
        rest = b == 0 || b == -1 ? 0 : a % b;
        return rest != 0 && (rest < 0) != (b < 0) && onnx_int(node, "fmod", 0) == 0 ? rest + b
                                                                                    : rest;
    case ONNX_Max:
        return a > b ? a : b;
    case ONNX_Min:
        return a < b ? a : b;
    case ONNX_Equal:
        return a == b;
    case ONNX_Less:
        return a < b;
    case ONNX_LessOrEqual:
        return a <= b;
    case ONNX_Greater:
        return a > b;
    case ONNX_GreaterOrEqual:
        return a >= b;
    default:
        return (int64_t)real_of_two(node, (double)a, (double)b);
    }
}

static bool fold_one(const struct fold *f)
{
    struct onnx_data *y = onnx_data_new(f->model, f->y, f->data->uniform);
    const uint64_t n = f->data->uniform ? 1 : onnx_elems(f->y);

    for (uint64_t i = 0; i < n && y != NULL; i++) {
        if (!f->data->real && !y->real) {
            const int64_t a = f->data->i[i];

            y->i[i] = f->node->op == ONNX_Neg             ? (int64_t)(0 - (uint64_t)a)
                      : f->node->op == ONNX_Abs && a < 0  ? (int64_t)(0 - (uint64_t)a)
                      : f->node->op == ONNX_Not           ? a == 0
                      : f->node->op == ONNX_Sign          ? (a > 0) - (a < 0)
                      : f->node->op == ONNX_Relu && a < 0 ? 0
                      : f->y->type == ONNX_BOOL           ? a != 0
                                                          : integer_of_type(f->y->type, a);
        } else {
            set_real(f->y, y, i, real_of_one(f->node, onnx_real(f->data, i)));
        }
    }
    f->y->data = y;
    return y != NULL;
}

static bool fold_clip(const struct fold *f)
{
    struct onnx_data *y = onnx_data_new(f->model, f->y, f->data->uniform);
    const uint64_t n = f->data->uniform ? 1 : onnx_elems(f->y);
    double ends[2] = {onnx_float(f->node, "min", -INFINITY), onnx_float(f->node, "max", INFINITY)};

    for (uint32_t i = 0; i < 2; i++) {
        const struct onnx_value *end = onnx_in(f->model, f->node, 1 + i);

        if (end != NULL && onnx_elems(end) == 1) {
            ends[i] = onnx_real(end->data, 0);
        }
    }
    ends[0] = ends[0] > ends[1] ? ends[1] : ends[0]; /* then all is the greatest */
    for (uint64_t i = 0; i < n && y != NULL; i++) {
        const double a = onnx_real(f->data, i);

        set_real(f->y, y, i, a < ends[0] ? ends[0] : a > ends[1] ? ends[1] : a);
    }
    f->y->data = y;
    return y != NULL;
}

/* How far elements of an operand lie apart along the axes of a result that it is broadcast to. */
static void strides_to(const struct onnx_value *x, uint32_t rank, int64_t *ret_strides)
{
    int64_t stride = 1;

    for (uint32_t i = 0; i < rank; i++) {
        ret_strides[i] = 0;
    }
    for (uint32_t i = x->rank; i-- > 0;) {
        ret_strides[i + rank - x->rank] = x->dims[i] == 1 ? 0 : stride;
        stride *= (int64_t)x->dims[i];
    }
}

/* The next element of a result: `at` counts axes, `from` are places of operands. */
static void step(const struct onnx_value *y, uint64_t *at, uint32_t n,
                 int64_t (*strides)[ONNX_RANK], int64_t *from)
{
    for (uint32_t axis = y->rank; axis-- > 0;) {
        for (uint32_t k = 0; k < n; k++) {
            from[k] += strides[k][axis];
        }
        if (++at[axis] < y->dims[axis]) {
            return;
        }
        for (uint32_t k = 0; k < n; k++) {
            from[k] -= (int64_t)y->dims[axis] * strides[k][axis];
        }
        at[axis] = 0;
    }
}

/* Two operands, or Where's three, of which `data` are the numbers. */
static bool fold_several(const struct fold *f, uint32_t n, const struct onnx_value *const *values,
                         const struct onnx_data *const *data)
{
    int64_t strides[3][ONNX_RANK], from[3] = {0};
    uint64_t at[ONNX_RANK] = {0}, elems = onnx_elems(f->y);
    bool uniform = true;
    struct onnx_data *y;

    for (uint32_t k = 0; k < n; k++) {
        strides_to(values[k], f->y->rank, strides[k]);
        uniform = uniform && (data[k]->uniform || onnx_elems(values[k]) == 1);
    }
    y = onnx_data_new(f->model, f->y, uniform);
    if (y == NULL) {
        return false;
    }
    elems = uniform && elems > 1 ? 1 : elems;
    for (uint64_t i = 0; i < elems; i++) {
        const uint64_t a = (uint64_t)from[0], b = (uint64_t)from[1];

        if (n == 3) {
            const uint32_t k = onnx_real(data[0], a) != 0 ? 1 : 2;

            if (data[k]->real) {
                set_real(f->y, y, i, onnx_real(data[k], (uint64_t)from[k]));
            } else {
                y->i[i] = onnx_integer(data[k], (uint64_t)from[k]);
            }
        } else if (!data[0]->real && !data[1]->real && !y->real) {
            y->i[i] = integer_of_two(f->node, onnx_integer(data[0], a), onnx_integer(data[1], b));
        } else {
            set_real(f->y, y, i,
                     real_of_two(f->node, onnx_real(data[0], a), onnx_real(data[1], b)));
        }
        step(f->y, at, n, strides, from);
    }
    f->y->data = y;
    return true;
}

/* Two by two, from the left. */
static bool fold_many(const struct fold *f)
{
    struct onnx_value left = *f->x;
    const struct onnx_data *data = f->data;

    if (f->node->n_in == 1) {
        f->y->data = data;
        return true;
    }
    for (uint32_t i = 1; i < f->node->n_in; i++) {
        const struct onnx_value *right = onnx_in(f->model, f->node, i);
        const struct onnx_value *values[2] = {&left, right};
        const struct onnx_data *both[2] = {data, right->data};
        struct onnx_value sum = {.type = f->y->type};
        const struct fold part = {f->model, f->node, f->x, &sum, data};

        if (!onnx_broadcast(2, values, &sum.rank, sum.dims) ||
            !fold_several(&part, 2, values, both)) {
            return false;
        }
        left = sum;
        data = sum.data;
    }
    f->y->data = data;
    return true;
}

static bool fold_where(const struct fold *f)
{
    const struct onnx_value *values[3];
    const struct onnx_data *data[3];

    for (uint32_t i = 0; i < 3; i++) {
        values[i] = onnx_in(f->model, f->node, i);
        data[i] = values[i]->data;
    }
    return fold_several(f, 3, values, data);
}

/* --- layout ----------------------------------------------------------------------------------- */

/* The result has the same numbers in another shape. */
static bool fold_view(const struct fold *f)
{
    f->y->data = f->data;
    return true;
}

static void copy_one(const struct onnx_data *from, uint64_t i, struct onnx_data *to, uint64_t k)
{
    to->i[k] = from->i[from->uniform ? 0 : i]; /* bits of either kind */
}

/* Elements of x from `start` on with these strides, in the shape of `to`. */
static bool fold_strided(const struct fold *f, struct onnx_value *to, int64_t start,
                         const int64_t *strides)
{
    int64_t by[1][ONNX_RANK], from[1] = {start};
    uint64_t at[ONNX_RANK] = {0}, elems = onnx_elems(to);
    struct onnx_data *y;

    if (f->data->uniform) {
        to->data = f->data;
        return true;
    }
    y = onnx_data_new(f->model, to, false);
    memcpy(by[0], strides, sizeof by[0]);
    for (uint64_t i = 0; i < elems && y != NULL; i++) {
        copy_one(f->data, (uint64_t)from[0], y, i);
        step(to, at, 1, by, from);
    }
    to->data = y;
    return y != NULL;
}

static void plain_strides(const struct onnx_value *x, int64_t *ret_strides)
{
    int64_t stride = 1;

    for (uint32_t i = x->rank; i-- > 0;) {
        ret_strides[i] = stride;
        stride *= (int64_t)x->dims[i];
    }
}

static bool fold_transpose(const struct fold *f)
{
    int64_t strides[ONNX_RANK], permuted[ONNX_RANK] = {0};
    uint32_t n;
    const int64_t *perm = onnx_ints(f->node, "perm", &n);

    plain_strides(f->x, strides);
    for (uint32_t i = 0; i < f->x->rank; i++) {
        permuted[i] = strides[perm == NULL ? f->x->rank - 1 - i : (uint32_t)perm[i]];
    }
    return fold_strided(f, f->y, 0, permuted);
}

static bool fold_expand(const struct fold *f)
{
    int64_t strides[ONNX_RANK];

    strides_to(f->x, f->y->rank, strides);
    return fold_strided(f, f->y, 0, strides);
}

static bool fold_slice(const struct fold *f)
{
    int64_t start[ONNX_RANK], by[ONNX_RANK], strides[ONNX_RANK] = {0}, first = 0;
    uint64_t dims[ONNX_RANK];

    if (onnx_slice(f->model, f->node, start, by, dims, NULL) != PST_OK) {
        return false;
    }
    plain_strides(f->x, strides);
    for (uint32_t i = 0; i < f->x->rank; i++) {
        first += start[i] * strides[i];
        strides[i] *= by[i];
    }
    return fold_strided(f, f->y, first, strides);
}

static bool fold_split(const struct fold *f)
{
    const uint32_t axis = onnx_axis(onnx_int(f->node, "axis", 0), f->x->rank);
    int64_t strides[ONNX_RANK] = {0}, first = 0;

    plain_strides(f->x, strides);
    for (uint32_t i = 0; i < f->node->n_out; i++) {
        struct onnx_value *y = onnx_out(f->model, f->node, i);

        if (y == NULL || !fold_strided(f, y, first, strides)) {
            return false;
        }
        first += (int64_t)y->dims[axis] * strides[axis];
    }
    return true;
}

/* Place of element i of `y` on each axis. */
static void place_of(const struct onnx_value *y, uint64_t i, uint64_t *ret_at)
{
    for (uint32_t k = y->rank; k-- > 0;) {
        ret_at[k] = i % y->dims[k];
        i /= y->dims[k];
    }
}

static uint64_t index_of(const struct onnx_value *x, const uint64_t *at)
{
    uint64_t index = 0;

    for (uint32_t k = 0; k < x->rank; k++) {
        index = index * x->dims[k] + at[k];
    }
    return index;
}

static bool fold_tile(const struct fold *f)
{
    struct onnx_data *y = onnx_data_new(f->model, f->y, f->data->uniform);
    const uint64_t n = f->data->uniform ? 1 : onnx_elems(f->y);
    uint64_t at[ONNX_RANK];

    for (uint64_t i = 0; i < n && y != NULL; i++) {
        place_of(f->y, i, at);
        for (uint32_t k = 0; k < f->x->rank; k++) {
            at[k] %= f->x->dims[k];
        }
        copy_one(f->data, f->data->uniform ? 0 : index_of(f->x, at), y, i);
    }
    f->y->data = y;
    return y != NULL;
}

static bool fold_concat(const struct fold *f)
{
    const uint32_t axis = onnx_axis(onnx_int(f->node, "axis", 1), f->x->rank);
    struct onnx_data *y = onnx_data_new(f->model, f->y, false);
    uint64_t before = 0, at[ONNX_RANK];

    for (uint32_t k = 0; k < f->node->n_in && y != NULL; k++) {
        const struct onnx_value *x = onnx_in(f->model, f->node, k);
        const uint64_t n = onnx_elems(x);

        for (uint64_t i = 0; i < n; i++) {
            place_of(x, i, at);
            at[axis] += before;
            copy_one(x->data, i, y, index_of(f->y, at));
        }
        before += x->dims[axis];
    }
    f->y->data = y;
    return y != NULL;
}

static bool fold_trilu(const struct fold *f)
{
    const struct onnx_value *k = onnx_in(f->model, f->node, 1);
    const int64_t shift = k != NULL && onnx_elems(k) == 1 ? onnx_integer(k->data, 0) : 0;
    const bool upper = onnx_int(f->node, "upper", 1) != 0;
    struct onnx_data *y;
    uint64_t at[ONNX_RANK];

    if (f->x->rank < 2 || shift > 1ll << 40 || shift < -(1ll << 40)) {
        return false;
    }
    y = onnx_data_new(f->model, f->y, false);
    for (uint64_t i = 0; y != NULL && i < onnx_elems(f->y); i++) {
        place_of(f->y, i, at);
        const int64_t over = (int64_t)at[f->x->rank - 1] - (int64_t)at[f->x->rank - 2] - shift;

        if (upper ? over >= 0 : over <= 0) {
            copy_one(f->data, i, y, i);
        } /* else 0 */
    }
    f->y->data = y;
    return y != NULL;
}

/* --- by place --------------------------------------------------------------------------------- */

/* An index that may count from the end; false: there is none. */
static bool place(int64_t index, uint64_t n, uint64_t *ret_place)
{
    index += index < 0 ? (int64_t)n : 0;
    *ret_place = (uint64_t)index;
    return index >= 0 && (uint64_t)index < n;
}

static bool fold_gather(const struct fold *f)
{
    const struct onnx_value *index = onnx_in(f->model, f->node, 1);
    const uint32_t axis = onnx_axis(onnx_int(f->node, "axis", 0), f->x->rank);
    const bool elements = f->node->op == ONNX_GatherElements;
    struct onnx_data *y = onnx_data_new(f->model, f->y, false);

    for (uint64_t i = 0; y != NULL && i < onnx_elems(f->y); i++) {
        uint64_t at[ONNX_RANK], from[ONNX_RANK], k = 0;

        place_of(f->y, i, at);
        if (elements) {
            memcpy(from, at, sizeof from);
            k = i;
        } else {
            for (uint32_t a = 0; a < index->rank; a++) {
                k = k * index->dims[a] + at[axis + a];
            }
            memcpy(from, at, axis * sizeof *from);
            memcpy(from + axis + 1, at + axis + index->rank,
                   (f->x->rank - axis - 1) * sizeof *from);
        }
        if (!place(onnx_integer(index->data, k), f->x->dims[axis], &from[axis])) {
            return false;
        }
        for (uint32_t a = 0; a < f->x->rank && elements; a++) {
            if (from[a] >= f->x->dims[a]) {
                return false;
            }
        }
        copy_one(f->data, index_of(f->x, from), y, i);
    }
    f->y->data = y;
    return y != NULL;
}

/* First element of the part of x that row `row` of places names. */
static bool nd_place(const struct onnx_value *x, const struct onnx_value *index, uint64_t row,
                     uint64_t *ret_first, uint64_t *ret_n)
{
    const uint64_t depth = index->dims[index->rank - 1];
    uint64_t at[ONNX_RANK] = {0};

    *ret_n = 1;
    for (uint32_t k = 0; k < x->rank; k++) {
        if (k >= depth) {
            *ret_n *= x->dims[k];
        } else if (!place(onnx_integer(index->data, row * depth + k), x->dims[k], &at[k])) {
            return false;
        }
    }
    *ret_first = index_of(x, at);
    return true;
}

static bool fold_gather_nd(const struct fold *f)
{
    const struct onnx_value *index = onnx_in(f->model, f->node, 1);
    const uint64_t rows = onnx_elems(index) / index->dims[index->rank - 1];
    struct onnx_data *y = onnx_data_new(f->model, f->y, false);

    for (uint64_t row = 0; row < rows && y != NULL; row++) {
        uint64_t first, n;

        if (!nd_place(f->x, index, row, &first, &n)) {
            return false;
        }
        for (uint64_t i = 0; i < n; i++) {
            copy_one(f->data, first + i, y, row * n + i);
        }
    }
    f->y->data = y;
    return y != NULL;
}

static bool fold_scatter_nd(const struct fold *f)
{
    const struct onnx_value *index = onnx_in(f->model, f->node, 1);
    const struct onnx_value *update = onnx_in(f->model, f->node, 2);
    struct onnx_data *y = onnx_data_new(f->model, f->y, false);
    uint64_t rows;

    if (y == NULL || index->rank == 0 || index->dims[index->rank - 1] == 0 ||
        index->dims[index->rank - 1] > f->x->rank ||
        !onnx_word_is(f->node, "reduction", "none", true)) { /* others add up */
        return false;
    }
    rows = onnx_elems(index) / index->dims[index->rank - 1];
    for (uint64_t i = 0; i < onnx_elems(f->y); i++) {
        copy_one(f->data, i, y, i);
    }
    for (uint64_t row = 0; row < rows; row++) {
        uint64_t first, n;

        if (!nd_place(f->x, index, row, &first, &n) || (row + 1) * n > onnx_elems(update)) {
            return false;
        }
        for (uint64_t i = 0; i < n; i++) {
            copy_one(update->data, row * n + i, y, first + i);
        }
    }
    f->y->data = y;
    return true;
}

/* --- along axes ------------------------------------------------------------------------------- */

static bool fold_cumsum(const struct fold *f)
{
    const struct onnx_value *which = onnx_in(f->model, f->node, 1);
    const uint32_t axis =
        onnx_elems(which) != 1 ? f->x->rank : onnx_axis(onnx_integer(which->data, 0), f->x->rank);
    int64_t strides[ONNX_RANK];
    struct onnx_data *y;

    if (axis == f->x->rank || onnx_int(f->node, "exclusive", 0) != 0 ||
        onnx_int(f->node, "reverse", 0) != 0) {
        return false;
    }
    plain_strides(f->x, strides);
    y = onnx_data_new(f->model, f->y, false);
    for (uint64_t i = 0; y != NULL && i < onnx_elems(f->y); i++) {
        const uint64_t stride = (uint64_t)strides[axis];
        const bool first = i / stride % f->x->dims[axis] == 0;

        if (y->real) {
            set_real(f->y, y, i, onnx_real(f->data, i) + (first ? 0 : y->f[i - stride]));
        } else {
            y->i[i] = (int64_t)((uint64_t)onnx_integer(f->data, i) +
                                (first ? 0 : (uint64_t)y->i[i - stride]));
        }
    }
    f->y->data = y;
    return y != NULL;
}

static double reduced(uint32_t op, double sum, double a)
{
    return op == ONNX_ReduceMax ? (a > sum ? a : sum) : op == ONNX_ReduceProd ? sum * a : sum + a;
}

static bool fold_reduce(const struct fold *f)
{
    const uint64_t n = onnx_elems(f->x), parts = onnx_elems(f->y);
    const uint32_t op = f->node->op;
    double *sums;
    uint32_t axes;
    bool keep;
    struct onnx_data *y = onnx_data_new(f->model, f->y, false);

    if (y == NULL || n == 0 || onnx_reduced(f->model, f->node, &axes, &keep, NULL) != PST_OK) {
        return false;
    }
    sums = pst_arena_array(&f->model->numbers, parts, sizeof *sums);
    for (uint64_t i = 0; i < parts; i++) {
        sums[i] = op == ONNX_ReduceMax ? -INFINITY : op == ONNX_ReduceProd ? 1 : 0;
    }
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at[ONNX_RANK], part = 0;

        place_of(f->x, i, at);
        for (uint32_t k = 0; k < f->x->rank; k++) {
            part = (axes >> k & 1) != 0 ? part : part * f->x->dims[k] + at[k];
        }
        sums[part] = reduced(op, sums[part], onnx_real(f->data, i));
    }
    for (uint64_t i = 0; i < parts; i++) {
        set_real(f->y, y, i,
                 op == ONNX_ReduceMean ? sums[i] / ((double)n / (double)parts) : sums[i]);
    }
    f->y->data = y;
    return true;
}

static bool fold_arg(const struct fold *f)
{
    const uint32_t axis = onnx_axis(onnx_int(f->node, "axis", 0), f->x->rank);
    int64_t strides[ONNX_RANK];
    struct onnx_data *y = onnx_data_new(f->model, f->y, false);

    if (onnx_int(f->node, "select_last_index", 0) != 0) {
        return false;
    }
    plain_strides(f->x, strides);
    for (uint64_t i = 0; y != NULL && i < onnx_elems(f->y); i++) {
        const uint64_t stride = (uint64_t)strides[axis];
        const uint64_t first = i / stride * stride * f->x->dims[axis] + i % stride;

        for (uint64_t k = 1; k < f->x->dims[axis]; k++) {
            const double best = onnx_real(f->data, first + (uint64_t)y->i[i] * stride);
            const double a = onnx_real(f->data, first + k * stride);

            y->i[i] = (f->node->op == ONNX_ArgMax ? a > best : a < best) ? (int64_t)k : y->i[i];
        }
    }
    f->y->data = y;
    return y != NULL;
}

/* --- numbers from nothing --------------------------------------------------------------------- */

static bool tensor_data(struct onnx_model *model, const Onnx__TensorProto *tensor,
                        struct onnx_value *value)
{
    struct onnx_data *data = onnx_data_new(model, value, false);
    const uint64_t n = onnx_elems(value);

    if (data == NULL ||
        (data->real ? onnx_tensor_reals(model, tensor, 0, n, data->f, NULL)
                    : onnx_tensor_integers(model, tensor, 0, n, data->i, NULL)) != PST_OK) {
        return false;
    }
    value->data = data;
    return true;
}

static bool fold_constant(const struct fold *f)
{
    const Onnx__AttributeProto *value = onnx_attribute(f->node, "value");
    struct onnx_data *y;

    if (value != NULL && value->t != NULL) {
        return tensor_data(f->model, value->t, f->y);
    }
    y = onnx_data_new(f->model, f->y, false);
    for (uint64_t i = 0; y != NULL && i < onnx_elems(f->y); i++) {
        const Onnx__AttributeProto *list =
            onnx_attribute(f->node, y->real ? "value_floats" : "value_ints");

        if (y->real) {
            y->f[i] = f->y->rank == 0 ? onnx_float(f->node, "value_float", 0) : list->floats[i];
        } else {
            y->i[i] = f->y->rank == 0 ? onnx_int(f->node, "value_int", 0) : list->ints[i];
        }
    }
    f->y->data = y;
    return y != NULL;
}

static bool fold_filled(const struct fold *f)
{
    const Onnx__AttributeProto *value = onnx_attribute(f->node, "value");
    struct onnx_value one = {.type = f->y->type};

    if (value != NULL && value->t != NULL) {
        f->y->data = tensor_data(f->model, value->t, &one) ? one.data : NULL;
        if (one.data != NULL) {
            ((struct onnx_data *)one.data)->uniform = true;
        }
    } else {
        f->y->data = onnx_data_new(f->model, f->y, true); /* 0 */
    }
    return f->y->data != NULL;
}

static bool fold_range(const struct fold *f)
{
    const struct onnx_data *by = onnx_in(f->model, f->node, 2)->data;
    struct onnx_data *y = onnx_data_new(f->model, f->y, false);

    for (uint64_t i = 0; y != NULL && i < f->y->dims[0]; i++) {
        if (y->real) {
            set_real(f->y, y, i, onnx_real(f->data, 0) + (double)i * onnx_real(by, 0));
        } else {
            y->i[i] =
                (int64_t)((uint64_t)onnx_integer(f->data, 0) + i * (uint64_t)onnx_integer(by, 0));
        }
    }
    f->y->data = y;
    return y != NULL;
}

/* --- all -------------------------------------------------------------------------------------- */

typedef bool fold_fn(const struct fold *f);

static fold_fn *const folds[ONNX_N_OPS] = {
    [ONNX_Abs] = fold_one,
    [ONNX_Add] = fold_many,
    [ONNX_And] = fold_many,
    [ONNX_ArgMax] = fold_arg,
    [ONNX_ArgMin] = fold_arg,
    [ONNX_Cast] = fold_one,
    [ONNX_CastLike] = fold_one,
    [ONNX_Ceil] = fold_one,
    [ONNX_Clip] = fold_clip,
    [ONNX_Concat] = fold_concat,
    [ONNX_Constant] = fold_constant,
    [ONNX_ConstantOfShape] = fold_filled,
    [ONNX_Cos] = fold_one,
    [ONNX_CumSum] = fold_cumsum,
    [ONNX_Div] = fold_many,
    [ONNX_Equal] = fold_many,
    [ONNX_Erf] = fold_one,
    [ONNX_Exp] = fold_one,
    [ONNX_Expand] = fold_expand,
    [ONNX_Flatten] = fold_view,
    [ONNX_Floor] = fold_one,
    [ONNX_Gather] = fold_gather,
    [ONNX_GatherElements] = fold_gather,
    [ONNX_GatherND] = fold_gather_nd,
    [ONNX_Greater] = fold_many,
    [ONNX_GreaterOrEqual] = fold_many,
    [ONNX_Identity] = fold_one,
    [ONNX_IsNaN] = fold_one,
    [ONNX_Less] = fold_many,
    [ONNX_LessOrEqual] = fold_many,
    [ONNX_Log] = fold_one,
    [ONNX_Max] = fold_many,
    [ONNX_Min] = fold_many,
    [ONNX_Mod] = fold_many,
    [ONNX_Mul] = fold_many,
    [ONNX_Neg] = fold_one,
    [ONNX_Not] = fold_one,
    [ONNX_Or] = fold_many,
    [ONNX_Pow] = fold_many,
    [ONNX_Range] = fold_range,
    [ONNX_Reciprocal] = fold_one,
    [ONNX_ReduceMax] = fold_reduce,
    [ONNX_ReduceMean] = fold_reduce,
    [ONNX_ReduceProd] = fold_reduce,
    [ONNX_ReduceSum] = fold_reduce,
    [ONNX_Relu] = fold_one,
    [ONNX_Reshape] = fold_view,
    [ONNX_Round] = fold_one,
    [ONNX_ScatterND] = fold_scatter_nd,
    [ONNX_Sigmoid] = fold_one,
    [ONNX_Sign] = fold_one,
    [ONNX_Sin] = fold_one,
    [ONNX_Slice] = fold_slice,
    [ONNX_Split] = fold_split,
    [ONNX_Sqrt] = fold_one,
    [ONNX_Squeeze] = fold_view,
    [ONNX_Sub] = fold_many,
    [ONNX_Sum] = fold_many,
    [ONNX_Tanh] = fold_one,
    [ONNX_Tile] = fold_tile,
    [ONNX_Transpose] = fold_transpose,
    [ONNX_Trilu] = fold_trilu,
    [ONNX_Unsqueeze] = fold_view,
    [ONNX_Where] = fold_where,
    [ONNX_Xor] = fold_many,
};

bool onnx_folds(uint32_t op)
{
    return folds[op] != NULL;
}

static bool fold(struct onnx_model *model, const struct onnx_node *node)
{
    const struct fold f = {.model = model,
                           .node = node,
                           .x = onnx_in(model, node, 0),
                           .y = onnx_out(model, node, 0),
                           .data = node->n_in == 0 ? NULL : onnx_in(model, node, 0)->data};

    /* Nothing is taken from what has no elements. */
    if (onnx_elems(f.y) == 0 && node->n_out == 1) {
        f.y->data = onnx_data_new(model, f.y, false);
        return f.y->data != NULL;
    }
    return folds[node->op](&f);
}

pst_status onnx_fold(struct onnx_model *model, const struct onnx_node *node, struct pst_error *err)
{
    char name[192];

    if (fold(model, node)) {
        return PST_OK;
    }
    return ONNX_BAD("input.unsupported",
                    "%s: cannot be computed when the model is read: its places are outside of what "
                    "it reads, its attributes are not supported, or numbers take more than 1 GiB",
                    onnx_node_name(model, node, name));
}

static const struct onnx_data *known(struct onnx_model *model, struct onnx_value *value,
                                     uint32_t depth)
{
    const struct onnx_node *node = onnx_maker(model, value);

    if (value->data != NULL || !value->fixed || depth == MAX_DEPTH) {
        return value->data;
    }
    if (value->tensor != NULL) {
        tensor_data(model, value->tensor, value);
        return value->data;
    }
    if (node == NULL || folds[node->op] == NULL) {
        return NULL;
    }
    for (uint32_t i = 0; i < node->n_in; i++) {
        struct onnx_value *x = onnx_in(model, node, i);

        if (x != NULL && (i == 0 || node->op != ONNX_CastLike) &&
            known(model, x, depth + 1) == NULL) {
            return NULL;
        }
    }
    return fold(model, node) ? value->data : NULL;
}

const struct onnx_data *onnx_known(struct onnx_model *model, struct onnx_value *value)
{
    return known(model, value, 0);
}
