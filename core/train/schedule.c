/* SPDX-License-Identifier: Apache-2.0 */
#include "train/schedule.h"

#include <math.h>

enum { SCHEDULE_CONSTANT = 0, SCHEDULE_COSINE = 1 };

double pst_learning_rate(const struct pst_job_train *train, uint64_t step)
{
    uint64_t warmup = (uint64_t)train->warmup, last = (uint64_t)train->steps - 1;
    double done;

    if (step < warmup) {
        return train->lr * (double)(step + 1) / (double)warmup;
    }
    if (train->schedule == SCHEDULE_CONSTANT || step < warmup + 1) {
        return train->lr;
    }
    if (step >= last) {
        return train->min_lr;
    }
    done = (double)(step - warmup) / (double)(last - warmup);
    return train->min_lr + 0.5 * (train->lr - train->min_lr) * (1.0 + cos(M_PI * done));
}

struct pst_update pst_update_at(const struct pst_job_train *train, uint64_t step)
{
    struct pst_update update = {
        .optimizer = train->optimizer,
        .lr = (float)pst_learning_rate(train, step),
        .momentum = (float)train->momentum,
        .beta1 = (float)train->beta1,
        .beta2 = (float)train->beta2,
        .eps = (float)train->eps,
        .weight_decay = (float)train->weight_decay,
        .step = step + 1,
        .grad_scale = 1.0f,
    };

    return update;
}
