/* SPDX-License-Identifier: Apache-2.0
 *
 * oneDNN's engine and stream of a device, and what it says about the processor.
 */
#include "cpu.h"

#include "base/memory.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>

void pst_dnnl_heed_no_memory(int status)
{
    if (status == dnnl_out_of_memory) {
        pst_out_of_memory();
    }
}

void pst_dnnl_must(int status)
{
    pst_dnnl_heed_no_memory(status);
    PST_ASSERT(status == dnnl_success);
}

pst_status pst_dnnl_open(struct pst_device *device, struct pst_error *err)
{
    dnnl_engine_t engine = NULL;
    dnnl_stream_t stream = NULL;
    dnnl_status_t status;
    int capacity;

    dnnl_get_primitive_cache_capacity(&capacity); /* makes the cache that all devices share */
    status = dnnl_engine_create(&engine, dnnl_cpu, 0);
    if (status == dnnl_success) {
        status = dnnl_stream_create(&stream, engine, dnnl_stream_default_flags);
    }
    if (status != dnnl_success) {
        pst_dnnl_heed_no_memory(status);
        dnnl_engine_destroy(engine);
        return pst_fail(err, PST_ERR_DEVICE, "run.device", "oneDNN could not open its cpu engine");
    }
    device->engine = engine;
    device->stream = stream;
    return PST_OK;
}

void pst_dnnl_close(struct pst_device *device)
{
    if (device->stream != NULL) {
        dnnl_stream_destroy(device->stream);
    }
    if (device->engine != NULL) {
        dnnl_engine_destroy(device->engine);
    }
}

static const char *isa_name(void)
{
    switch (dnnl_get_effective_cpu_isa()) {
    case dnnl_cpu_isa_sse41:
        return "SSE4.1";
    case dnnl_cpu_isa_avx:
        return "AVX";
    case dnnl_cpu_isa_avx2:
        return "AVX2";
    case dnnl_cpu_isa_avx2_vnni:
        return "AVX2 VNNI";
    case dnnl_cpu_isa_avx512_core:
        return "AVX-512";
    case dnnl_cpu_isa_avx512_core_vnni:
        return "AVX-512 VNNI";
    case dnnl_cpu_isa_avx512_core_bf16:
        return "AVX-512 bf16";
    case dnnl_cpu_isa_avx512_core_amx:
        return "AVX-512, AMX bf16";
    default:
        return "an instruction set it does not name";
    }
}

void pst_dnnl_describe(char *ret_text, size_t text_size)
{
    const dnnl_version_t *version = dnnl_version();

    snprintf(ret_text, text_size, "oneDNN %d.%d.%d, %s", version->major, version->minor,
             version->patch, isa_name());
}

/* Sets are supersets in bits. */
static bool has(dnnl_cpu_isa_t isa)
{
    return ((unsigned)dnnl_get_effective_cpu_isa() & (unsigned)isa) == (unsigned)isa;
}

bool pst_dnnl_has_bf16(void)
{
    return has(dnnl_cpu_isa_avx512_core_bf16);
}

bool pst_dnnl_has_avx512(void)
{
    return has(dnnl_cpu_isa_avx512_core);
}
