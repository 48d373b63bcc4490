// The one type that Metal's declarations name: https://developer.apple.com/documentation/dispatch
#pragma once
@protocol NSObject;
typedef id<NSObject> dispatch_queue_t;
