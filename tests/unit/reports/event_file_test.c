/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/event_file.h"

#include "test.h"

#include <string.h>

/* RFC 3720, B.4; "123456789" is the check value of the catalogue of parametrised CRC algorithms. */
TEST(test_crc32c)
{
    unsigned char bytes[32];

    assert_int_equal(pst_crc32c("123456789", 9), 0xe3069283);
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(pst_crc32c(bytes, sizeof bytes), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(pst_crc32c(bytes, sizeof bytes), 0x62a8ab43);
    for (uint32_t i = 0; i < 32; i++) {
        bytes[i] = (unsigned char)i;
    }
    assert_int_equal(pst_crc32c(bytes, sizeof bytes), 0x46dd794e);
}
