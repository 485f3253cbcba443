/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/schedule.h"

#include <math.h>

/* Returns the part of lr - min_lr that is left after the part `done`, 0 ... 1, of the decay. */
static double fall(uint32_t form, double done)
{
    switch (form) {
    case PST_DECAY_COSINE:
        return 0.5 * (1.0 + cos(M_PI * done));
    case PST_DECAY_ONE_MINUS_SQRT:
        return 1.0 - sqrt(done);
    default:
        return 1.0 - done;
    }
}

/* The last step before lr falls. */
static uint64_t fall_begin(const struct pst_job_loop *loop, uint64_t warmup, uint64_t last)
{
    double steps = loop->decay <= 1 ? round(loop->decay * (double)loop->steps) : floor(loop->decay);

    if (loop->schedule != PST_SCHEDULE_WSD || steps >= (double)(last - warmup)) {
        return warmup;
    }
    return last - (uint64_t)steps;
}

double pst_learning_rate(const struct pst_job_loop *loop, uint64_t step)
{
    const uint64_t warmup = (uint64_t)loop->warmup, last = (uint64_t)loop->steps - 1;
    const double high = loop->lr, low = loop->min_lr;
    uint64_t begin;
    uint32_t form;

    if (step < warmup) {
        return high * (double)(step + 1) / (double)warmup;
    }
    if (loop->schedule == PST_SCHEDULE_CONSTANT) {
        return high;
    }
    if (loop->schedule == PST_SCHEDULE_INVERSE_SQRT) {
        return fmax(low, high * sqrt((double)(warmup > 0 ? warmup : 1) / (double)(step + 1)));
    }
    begin = warmup < last ? fall_begin(loop, warmup, last) : last;
    if (step <= begin) {
        return high;
    }
    if (step >= last) {
        return low;
    }
    form = loop->schedule == PST_SCHEDULE_COSINE   ? PST_DECAY_COSINE
           : loop->schedule == PST_SCHEDULE_LINEAR ? PST_DECAY_LINEAR
                                                   : loop->decay_form;
    return low + (high - low) * fall(form, (double)(step - begin) / (double)(last - begin));
}

struct pst_update pst_update_at(const struct pst_job *job, uint64_t step)
{
    const struct pst_job_loop *loop = &job->training->loop;
    struct pst_update update = {
        .optimizer = job->train.optimizer,
        .lr = (float)pst_learning_rate(loop, step),
        .momentum = (float)loop->momentum,
        .beta1 = (float)loop->beta1,
        .beta2 = (float)loop->beta2,
        .eps = (float)loop->eps,
        .weight_decay = (float)job->train.weight_decay,
        .step = step + 1,
        .grad_scale = 1.0f,
    };

    return update;
}
