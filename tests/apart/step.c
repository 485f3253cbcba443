/* SPDX-License-Identifier: Apache-2.0
 *
 * Work around the step, put into the queue.
 */
#include "apart.h"

static void zero_now(struct pst_device *device, struct work *work)
{
    apart_cpu->zero(device->cpu, work->dst, work->bytes);
}

void apart_zero(struct pst_device *device, void *dst, uint64_t bytes)
{
    struct work *work = apart_work(zero_now);

    work->dst = apart_near(dst);
    work->bytes = bytes;
    apart_ask(device, work);
}

static void accumulate_now(struct pst_device *device, struct work *work)
{
    apart_cpu->accumulate(device->cpu, work->dst, work->a, work->bytes);
}

void apart_accumulate(struct pst_device *device, float *dst, const float *src, uint64_t elems)
{
    struct work *work = apart_work(accumulate_now);

    work->dst = apart_near(dst);
    work->a = apart_near(src);
    work->bytes = elems;
    apart_ask(device, work);
}

static void sum_now(struct pst_device *device, struct work *work)
{
    apart_cpu->sum(device->cpu, work->dst, work->a, work->b, work->bytes, work->dtype);
}

void apart_sum(struct pst_device *device, void *dst, const void *a, const void *b, uint64_t elems,
               uint32_t dtype)
{
    struct work *work = apart_work(sum_now);

    work->dst = apart_near(dst);
    work->a = apart_near(a);
    work->b = apart_near(b);
    work->bytes = elems;
    work->dtype = dtype;
    apart_ask(device, work);
}

static void square_now(struct pst_device *device, struct work *work)
{
    *work->ret_sum = apart_cpu->square_sum(device->cpu, work->a, work->bytes);
}

void apart_squares(struct pst_device *device, const struct pst_squared *list, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct work *work = apart_work(square_now);

        work->a = apart_near(list[i].values);
        work->bytes = list[i].elems;
        work->ret_sum = list[i].ret_sum;
        apart_ask(device, work);
    }
}

double apart_square_sum(struct pst_device *device, const float *values, uint64_t elems)
{
    double result = 0;
    const struct pst_squared one = {values, elems, &result};

    apart_squares(device, &one, 1);
    apart_await(device);
    return result;
}

static void update_now(struct pst_device *device, struct work *work)
{
    apart_cpu->update(device->cpu, &work->update, work->weights, work->a, work->s0, work->s1,
                      work->dst, work->dtype, work->bytes);
}

void apart_update(struct pst_device *device, const struct pst_update *how, float *weights,
                  const float *grad, float *s0, float *s1, void *working, uint32_t working_dtype,
                  uint64_t elems)
{
    struct work *work = apart_work(update_now);

    work->update = *how;
    work->weights = apart_near(weights);
    work->a = apart_near(grad);
    work->s0 = apart_near(s0);
    work->s1 = apart_near(s1);
    work->dst = apart_near(working);
    work->dtype = working_dtype;
    work->bytes = elems;
    apart_ask(device, work);
}

static void refresh_now(struct pst_device *device, struct work *work)
{
    apart_cpu->refresh(device->cpu, work->dst, work->a, work->dtype, work->bytes);
}

void apart_refresh(struct pst_device *device, void *working, const float *weights,
                   uint32_t working_dtype, uint64_t elems)
{
    struct work *work = apart_work(refresh_now);

    work->dst = apart_near(working);
    work->a = apart_near(weights);
    work->dtype = working_dtype;
    work->bytes = elems;
    apart_ask(device, work);
}
