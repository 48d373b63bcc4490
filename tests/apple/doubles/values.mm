// NSString, NSNumber, NSData and NSError.
#include <Foundation/Foundation.h>
#include <cstring>
#include <string>

#include "runtime.h"

// The string that is made at run time; NSString itself has no members because constants have their
// own.
@interface AppleDoubleString : NSString {
  std::string text_;
}
@end

@implementation NSString
+ (instancetype)allocWithZone:(NSZone*)zone {
  if (self == [NSString class]) return [AppleDoubleString allocWithZone:zone];
  return [super allocWithZone:zone];
}
+ (instancetype)string {
  return [self stringWithUTF8String:""];
}
+ (instancetype)stringWithUTF8String:(const char*)text {
  return [[[self alloc] initWithUTF8String:text] autorelease];
}
+ (instancetype)stringWithString:(NSString*)text {
  return [self stringWithUTF8String:[text UTF8String]];
}
- (instancetype)initWithUTF8String:(const char*)text {
  return [self initWithBytes:text length:std::strlen(text) encoding:NSUTF8StringEncoding];
}
- (instancetype)initWithBytes:(const void*)bytes
                       length:(NSUInteger)length
                     encoding:(NSStringEncoding)encoding {
  (void)bytes, (void)length, (void)encoding;
  apple::fail("NSString is made by +alloc only");
}
- (NSUInteger)length {
  return std::strlen([self UTF8String]);
}
- (const char*)UTF8String {
  return "";
}
- (BOOL)isEqualToString:(NSString*)other {
  return std::strcmp([self UTF8String], [other UTF8String]) == 0;
}
- (BOOL)isEqual:(id)object {
  return [object isKindOfClass:[NSString class]] && [self isEqualToString:object];
}
- (NSUInteger)hash {
  return std::hash<std::string>()([self UTF8String]);
}
- (NSString*)description {
  return self;
}
- (id)copyWithZone:(NSZone*)zone {
  (void)zone;
  return [self retain];
}
- (id)mutableCopyWithZone:(NSZone*)zone {
  (void)zone;
  apple::fail("mutable strings have no double");
}
@end

@implementation AppleDoubleString
- (instancetype)initWithBytes:(const void*)bytes
                       length:(NSUInteger)length
                     encoding:(NSStringEncoding)encoding {
  self = [super init];
  apple::expect(encoding == NSUTF8StringEncoding || encoding == NSASCIIStringEncoding,
                "strings are made of UTF-8 or ASCII");
  text_.assign(static_cast<const char*>(bytes), length);
  return self;
}
- (const char*)UTF8String {
  return text_.c_str();
}
@end

@implementation NSConstantString
- (const char*)UTF8String {
  return text_;
}
- (NSUInteger)length {
  return length_;
}
// Constants have no header with a count.
- (instancetype)retain {
  return self;
}
- (oneway void)release {
}
- (instancetype)autorelease {
  return self;
}
@end

@implementation NSNumber
+ (NSNumber*)numberWithDouble:(double)value {
  NSNumber* number = [[[self alloc] init] autorelease];
  number->number_ = value;
  return number;
}
+ (NSNumber*)numberWithInt:(int)value {
  return [self numberWithDouble:value];
}
+ (NSNumber*)numberWithInteger:(NSInteger)value {
  return [self numberWithDouble:static_cast<double>(value)];
}
+ (NSNumber*)numberWithUnsignedInteger:(NSUInteger)value {
  return [self numberWithDouble:static_cast<double>(value)];
}
+ (NSNumber*)numberWithFloat:(float)value {
  return [self numberWithDouble:value];
}
+ (NSNumber*)numberWithBool:(BOOL)value {
  return [self numberWithDouble:value];
}
- (int)intValue {
  return static_cast<int>(number_);
}
- (NSInteger)integerValue {
  return static_cast<NSInteger>(number_);
}
- (NSUInteger)unsignedIntegerValue {
  return static_cast<NSUInteger>(number_);
}
- (float)floatValue {
  return static_cast<float>(number_);
}
- (double)doubleValue {
  return number_;
}
- (BOOL)boolValue {
  return number_ != 0;
}
- (BOOL)isEqual:(id)object {
  return [object isKindOfClass:[NSNumber class]] && [object doubleValue] == number_;
}
- (NSUInteger)hash {
  return std::hash<double>()(number_);
}
- (id)copyWithZone:(NSZone*)zone {
  (void)zone;
  return [self retain];
}
@end

@implementation NSData
+ (instancetype)data {
  return [self dataWithBytes:nullptr length:0];
}
+ (instancetype)dataWithBytes:(const void*)bytes length:(NSUInteger)length {
  return [[[self alloc] initWithBytes:bytes length:length] autorelease];
}
- (instancetype)initWithBytes:(const void*)bytes length:(NSUInteger)length {
  self = [super init];
  bytes_ = ::operator new(length);
  length_ = length;
  if (length != 0) std::memcpy(bytes_, bytes, length);
  return self;
}
- (void)dealloc {
  ::operator delete(bytes_);
  [super dealloc];
}
- (NSUInteger)length {
  return length_;
}
- (const void*)bytes {
  return bytes_;
}
- (id)copyWithZone:(NSZone*)zone {
  (void)zone;
  return [self retain];
}
@end

NSString* const NSLocalizedDescriptionKey = @"NSLocalizedDescription";

@implementation NSError
+ (instancetype)errorWithDomain:(NSErrorDomain)domain
                           code:(NSInteger)code
                       userInfo:(NSDictionary*)userInfo {
  NSError* error = [[[self alloc] init] autorelease];
  error->domain_ = [domain copy];
  error->code_ = code;
  error->description_ = [[userInfo objectForKey:NSLocalizedDescriptionKey] copy];
  return error;
}
- (void)dealloc {
  [domain_ release];
  [description_ release];
  [super dealloc];
}
- (NSInteger)code {
  return code_;
}
- (NSErrorDomain)domain {
  return domain_;
}
- (NSString*)localizedDescription {
  return description_ != nil ? description_ : domain_;
}
@end

NSString* NSStringFromClass(Class aClass) {
  return [NSString stringWithUTF8String:class_getName(aClass)];
}
Class NSClassFromString(NSString* name) { return (Class)objc_lookUpClass([name UTF8String]); }
