// Names that S3 uses from the HTTP client shared with storage "http".
#pragma once

#include <web/environment.h>
#include <web/fields.h>
#include <web/http.h>
#include <web/retry.h>
#include <web/sizes.h>

namespace millrace::s3 {

using web::checked_size;
using web::ContentRange;
using web::Environment;
using web::Http;
using web::HttpHead;
using web::HttpReply;
using web::HttpRequest;
using web::Milliseconds;
using web::parse_content_range;
using web::parse_number;
using web::Place;
using web::process_environment;
using web::Retry;
using web::RetryPolicy;
using web::room_for_file;
using web::unquoted;

}  // namespace millrace::s3
