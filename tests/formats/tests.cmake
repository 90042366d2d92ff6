# SPDX-License-Identifier: Apache-2.0
hooksess_test(formats proto_text formats/messages.c)
hooksess_test(formats proto_parse formats/messages.c)
hooksess_test(formats records)
hooksess_test(formats table formats/tables.c)
hooksess_test(formats table_damage formats/tables.c)
hooksess_test(formats bundle_writer formats/bundles.c)
hooksess_test(formats bundle_reader formats/bundles.c)
hooksess_test(formats bundle_damage formats/bundles.c base/meter.c)
