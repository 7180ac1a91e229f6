module bowline.example/templates-judge

go 1.22
