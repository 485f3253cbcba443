/* SPDX-License-Identifier: Apache-2.0
 *
 * The same bits with the options of the schedulers, on one to four devices, with other cuts and
 * memory actions: a choice of combinations that differs from model to model.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bits_models.h"

static const struct {
    const char *scheduler;
    uint32_t most_devices; /* that six micro-batches are enough for */
} rows[] = {
    {"scheduler={use=\"gpipe\",reverse=true,split=true}", 4},
    {"scheduler={use=\"1f1b\",eager=true,split=true}", 4},
    {"scheduler={use=\"per-stage\",k=2}", 4},
    {"scheduler={use=\"per-stage\",split=true,refine=true}", 4},
    {"scheduler={use=\"interleaved\"}", 3}, /* whole rounds */
    {"scheduler={use=\"interleaved\",chunks=3,split=true}", 3},
    {"scheduler={use=\"group-interleaved\"}", 4},
    {"scheduler={use=\"group-interleaved\",chunks=3,group=1}", 4},
    {"scheduler={use=\"looped-bfs\",chunks=3}", 4},
    {"scheduler={use=\"zb-h1\"}", 4},
    {"scheduler={use=\"zb-h2\"}", 4},
    {"scheduler={use=\"interleaved-zb\",chunks=3}", 3},
    {"scheduler={use=\"zbv\"}", 4},
    {"scheduler={use=\"1f1b-v\"}", 4},
    {"scheduler={use=\"zb-auto\",memory_limit=2,objective=\"makespan\"}", 2},
    {"scheduler={use=\"v-zb\",objective=\"span\"}", 4},
    {"scheduler={use=\"v-min\",variant=\"improved\"}", 4},
    {"scheduler={use=\"v-half\",variant=\"improved\"}", 4},
    {"scheduler={use=\"dualpipev\"}", 3},
    {"scheduler={use=\"v-adaptive\",effort=0}", 4},
    {"scheduler={use=\"optimal\",placement=\"vshape\",max_nodes=10000}", 2},
    {"scheduler={use=\"optimal\",placement=\"looped\",objective=\"span\",max_nodes=10000}", 2},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static void check(const char *name, const char *path, uint32_t model)
{
    struct trace first;

    bits_train(path, (const char *const[]){NULL}, &first);
    for (uint32_t i = 0; i < ROWS; i++) {
        uint32_t other = i + model, most = rows[i].most_devices;
        char devices[32];
        const char *const sets[] = {devices, rows[i].scheduler, bits_memopts[other & 1],
                                    bits_partitioners[other >> 1 & 1], NULL};

        snprintf(devices, sizeof devices, "cluster.devices=%u",
                 model == 0 ? most : 1 + other % most);
        bits_check_run(name, path, sets, &first);
    }
}

static void test_gpt(void **state)
{
    (void)state;
    check("gpt", bits_config("gpt.toml", bits_gpt), 0);
}

static void test_resnet(void **state)
{
    (void)state;
    check("resnet", bits_config("resnet.toml", bits_resnet), 1);
}

static void test_mmt(void **state)
{
    (void)state;
    check("mmt", bits_config("mmt.toml", bits_mmt), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt),
        cmocka_unit_test(test_resnet),
        cmocka_unit_test(test_mmt),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
