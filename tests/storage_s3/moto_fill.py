"""Gives a moto server what moto_test.cpp reads, makes a user who may read it, and turns moto's checks of signatures on.

    python moto_fill.py ENDPOINT

Runs with the Python that moto is installed in, which has boto3. Prints the user's key id and secret, separated by a blank.
"""
import json
import sys
import urllib.request

import boto3

endpoint = sys.argv[1]
anyone = dict(endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="any", aws_secret_access_key="any")
s3, iam = boto3.client("s3", **anyone), boto3.client("iam", **anyone)

s3.create_bucket(Bucket="images")
for number in range(1003):  # a page, and a piece
    s3.put_object(Bucket="images", Key=f"many/{number:05d}.bin", Body=str(number).encode())
for key in ("odd/a b+c%20d.txt", "odd/\u00fc/\u65e5.txt", "odd/a//b", "odd/(1)'*!~;=&$@,:?.txt"):
    s3.put_object(Bucket="images", Key=key, Body=key.encode())
s3.put_object(Bucket="images", Key="large", Body=bytes(range(256)) * 4000)
s3.put_object(Bucket="images", Key="empty", Body=b"")

iam.create_user(UserName="reader")
policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
iam.put_user_policy(UserName="reader", PolicyName="read", PolicyDocument=json.dumps(policy))
key = iam.create_access_key(UserName="reader")["AccessKey"]

# From now on that user must sign every request.
urllib.request.urlopen(urllib.request.Request(endpoint + "/moto-api/reset-auth", data=b"0", headers={"Content-Type": "text/plain"}))
print(key["AccessKeyId"], key["SecretAccessKey"])
