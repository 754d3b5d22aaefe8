#include "millrace/plugin.h"
#include "millrace/storage.h"
#include "s3.h"

MILLRACE_PLUGIN("storage_s3", "1.0", "Objects of S3 and compatible servers: s3://bucket/name.") {
  registry.add(millrace::StorageType{{"s3", "Objects of S3, MinIO, Ceph and the like: s3://bucket/name"},
                                     std::make_shared<millrace::s3::S3>()});
}
